"""From settings to destinations."""

import logging

from pyspark.sql import SparkSession

from conf import KAFKA, ParquetFiles, PostgresqlTable, Settings
from streaming.batch.failpoints import FailpointHook, no_failpoint
from streaming.folders import folder_at, opening
from streaming.tables.delta_table import DeltaTableDestination
from streaming.tables.parquet_files import ParquetFilesDestination
from streaming.tables.postgresql_table import PostgresqlDestination
from streaming.tables.publishing import Destination, Publisher, RoutingInForce, try_staging

_LOGGER = logging.getLogger(__name__)


def destinations_of(
    settings: Settings, spark: SparkSession, rules: RoutingInForce, cluster: str | None
) -> dict[str, Destination]:
    """All tables, ready to be written to; none when every message goes to Kafka. The checkpoint is left as it is.

    Raises:
        ConfigurationError: one of them cannot be used.
        DestinationError: one cannot be reached now.
    """
    if not (rules.any_routes() or settings.sinks.rules):
        return {}
    destinations: dict[str, Destination] = {}
    for name, place in settings.sinks.places.items():
        with opening(name, place):
            destinations[name] = _destination(name, settings, spark, cluster)
    if only := [rule.topic for rule in settings.sinks.rules if KAFKA not in rule.to]:
        _LOGGER.info("For tables only: %s. Producers with delivery='direct' write there all the same.", ", ".join(only))
    for name, destination in destinations.items():
        if not destination.prepare() and name in rules.finished_tables():
            _LOGGER.warning(
                "Table %s is missing or empty, but had rules before. Stop and restore it if it had rows.", name
            )
        # those of PostgreSQL are all the checkpoint folder
        others = {other: one.root for other, one in destinations.items() if one.root.uri != destination.root.uri}
        try_staging(name, destination.root, others)
    return destinations


def publisher_of(
    rules: RoutingInForce, destinations: dict[str, Destination], failpoint: FailpointHook = no_failpoint
) -> Publisher | None:
    """What publishes the rows of a job's batches; None when all messages go to Kafka."""
    return Publisher(destinations, rules, failpoint) if rules.any_routes() else None


def _destination(name: str, settings: Settings, spark: SparkSession, cluster: str | None) -> Destination:
    table = settings.sinks.tables[name]
    if isinstance(table, ParquetFiles):
        return ParquetFilesDestination(name, folder_at(spark, table.path))
    if isinstance(table, PostgresqlTable):
        source = f"{settings.kafka.topics.half} in cluster {cluster or ''}"
        return PostgresqlDestination(name, spark, folder_at(spark, settings.job.checkpoint), table, source)
    return DeltaTableDestination(name, spark, folder_at(spark, table.path))
