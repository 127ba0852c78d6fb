"""From settings to destinations."""

from pyspark.sql import SparkSession

from conf import ParquetFiles, PostgresqlTable, Settings
from streaming.sinks.delta_table import DeltaTableDestination
from streaming.sinks.folders import folder_at
from streaming.sinks.parquet_files import ParquetFilesDestination
from streaming.sinks.postgresql_table import PostgresqlDestination
from streaming.sinks.publishing import Destination, Publisher
from streaming.sinks.routes import Routes
from streaming.sinks.rules_in_force import RulesInForce
from streaming.steps import Witness, nothing


def destinations_of(settings: Settings, spark: SparkSession) -> dict[str, Destination]:
    """All tables, ready to be written to; none when every message goes to Kafka. The checkpoint is left as it is.

    Raises:
        ConfigurationError: one of them cannot be used, or one is missing that a batch must still be finished for.
        DestinationError: one cannot be reached now.
    """
    rules = RulesInForce(folder_at(spark, settings.job.checkpoint))
    rules.read(set(settings.sinks.tables))
    if not (rules.any() or settings.sinks.rules):
        return {}
    destinations = {name: _destination(name, settings, spark) for name in settings.sinks.tables}
    for destination in destinations.values():
        destination.prepare()
    return destinations


def publisher_of(
    settings: Settings,
    spark: SparkSession,
    witness: Witness = nothing,
    destinations: dict[str, Destination] | None = None,
) -> Publisher | None:
    """What publishes the rows of a job's batches; None when all messages go to Kafka.

    Without ``destinations`` they are made here.

    Raises:
        ConfigurationError, DestinationError: see :func:`destinations_of`.
    """
    wanted = Routes.of([(rule.topic, rule.to) for rule in settings.sinks.rules])
    rules = RulesInForce(folder_at(spark, settings.job.checkpoint))
    rules.take(wanted, set(settings.sinks.tables))
    if not rules.any():
        return None
    return Publisher(destinations or destinations_of(settings, spark), rules, witness)


def _destination(name: str, settings: Settings, spark: SparkSession) -> Destination:
    table = settings.sinks.tables[name]
    if isinstance(table, ParquetFiles):
        return ParquetFilesDestination(name, folder_at(spark, table.path))
    if isinstance(table, PostgresqlTable):
        return PostgresqlDestination(name, spark, folder_at(spark, settings.job.checkpoint), table)
    return DeltaTableDestination(name, spark, folder_at(spark, table.path))
