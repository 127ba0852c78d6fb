"""With a local master nobody can reach the job from another machine but by what the settings open to him."""

from collections.abc import Iterator

import psutil
from pyspark.sql import SparkSession

from checkback.local import LocalKafka
from tests.listening import addresses


def _as_they_are(rows: Iterator[object]) -> Iterator[object]:
    yield from rows


def test_spark_its_workers_and_the_local_kafka_listen_on_loopback_only(spark: SparkSession, broker: LocalKafka) -> None:
    assert broker.running
    assert spark.range(1).mapInPandas(_as_they_are, "id long").count() == 1  # type: ignore[arg-type]  # rows of any kind
    assert addresses(psutil.Process()) == {"127.0.0.1"}
