"""From settings to destinations."""

from pyspark.sql import SparkSession

from conf import ParquetFiles, PostgresqlTable, Settings
from streaming.sinks.delta_table import DeltaTableDestination
from streaming.sinks.folders import folder_at
from streaming.sinks.parquet_files import ParquetFilesDestination
from streaming.sinks.postgresql_table import PostgresqlDestination
from streaming.sinks.publishing import Destination, Publisher, RoutesInForce
from streaming.steps import Witness, nothing


def publisher_of(
    settings: Settings, spark: SparkSession, rules: RoutesInForce, witness: Witness = nothing
) -> Publisher | None:
    """The destinations of a job, ready to be written to; None when all messages go to Kafka.

    Raises:
        ConfigurationError: one of them cannot be used.
        DestinationError: one cannot be reached now.
    """
    if not rules.any_routes():
        return None
    destinations = {name: _destination(name, settings, spark) for name in settings.sinks.tables}
    for destination in destinations.values():
        destination.prepare()
    return Publisher(destinations, rules, witness)


def _destination(name: str, settings: Settings, spark: SparkSession) -> Destination:
    table = settings.sinks.tables[name]
    if isinstance(table, ParquetFiles):
        return ParquetFilesDestination(name, folder_at(spark, table.path))
    if isinstance(table, PostgresqlTable):
        return PostgresqlDestination(name, spark, folder_at(spark, settings.job.checkpoint), table)
    return DeltaTableDestination(name, spark, folder_at(spark, table.path))
