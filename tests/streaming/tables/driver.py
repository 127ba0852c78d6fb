"""The sink as a job's driver has it, on batches given by hand: run again, cut off, or by two drivers."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from conf import Settings
from streaming.batch.batch import BatchReport
from streaming.batch.failpoints import Failpoint, FailpointHook, no_failpoint
from streaming.brokers.client import SinkSettings
from streaming.checkpoint.folder import Checkpoint
from streaming.folders import folder_at
from streaming.ownership.claim import Claim, Owner
from streaming.ownership.clock import JobClock
from streaming.ownership.preconditions import BatchPreconditions
from streaming.settings_in_force import BatchSettings, SettingsInForce
from streaming.sink import ExactlyOnceSink
from streaming.stateful.segments import OUTCOME_SCHEMA
from streaming.tables import Publisher, destinations_of, publisher_of
from tests.place import Place
from tests.streaming.outcomes import outcome

PARTITIONS = 2


class CrashError(Exception):
    """What a test ends a driver with."""


@dataclass(frozen=True)
class Crash:
    """A hook that ends the driver at a step."""

    at: Failpoint

    def __call__(self, step: Failpoint, batch: int) -> None:
        if step is self.at:
            raise CrashError(step)


def publisher(settings: Settings, spark: SparkSession, failpoint: FailpointHook = no_failpoint) -> Publisher | None:
    """That of a driver which has just started; the newest batch is in Kafka."""
    rules = SettingsInForce(folder_at(spark, settings.job.checkpoint))
    rules.take(BatchSettings.of(settings), settings.sinks.places, lambda _batch: True)
    return publisher_of(rules, destinations_of(settings, spark, rules, "cluster"), failpoint)


class Query:
    """A checkpoint folder as Spark would make it."""

    def __init__(self, place: Place, spark: SparkSession) -> None:
        self.place, self.spark = place, spark
        self.id = str(uuid.uuid4())
        self.owner = Owner(self.id)
        self._claims: list[Claim] = []
        self.folder = place.folder / "checkpoint"
        for name in ("offsets", "commits"):
            (self.folder / name).mkdir(parents=True)
        (self.folder / "metadata").write_text(f'{{"id":"{self.id}"}}')

    def begin(self, batch: int) -> None:
        """The batch's entry in the offset log."""
        entry = f'v1\n{{"batchWatermarkMs":0,"batchTimestampMs":{1000 + batch}}}\n{{}}\n{batch}'
        (self.folder / "offsets" / str(batch)).write_text(entry)

    def commit(self, batch: int) -> None:
        """Spark's commit log has the batch."""
        (self.folder / "commits" / str(batch)).write_text("v1\n{}")

    def claim(self, to_kafka: SinkSettings) -> Claim:
        """The claim of the one run that all drivers belong to."""
        self._claims.append(Claim(to_kafka))
        self._claims[-1].take(self.owner)
        return self._claims[-1]

    def close(self) -> None:
        """Close its connections."""
        for claim in self._claims:
            claim.close()

    def settings(self, sinks: dict[str, Any]) -> Settings:
        return self.place.settings(job={"checkpoint": str(self.folder)}, sinks=sinks)

    def driver(self, sinks: dict[str, Any], failpoint: FailpointHook = no_failpoint) -> "Driver":
        """A driver that has just started."""
        return Driver(self, self.settings(sinks), failpoint)


class Driver:
    """One process's sink."""

    def __init__(self, query: Query, settings: Settings, failpoint: FailpointHook) -> None:
        self._query = query
        place = query.place
        self.reports: list[BatchReport] = []
        # only the driver's steps: what tasks are told of goes to another process
        self.publisher = publisher(settings, query.spark, failpoint)
        checkpoint = Checkpoint(query.spark, settings.job.checkpoint)
        to_kafka = SinkSettings(place.bootstrap_servers, place.topics, 60_000)
        # drivers of one run: what the claim says is tested elsewhere, here the tables alone must tell them apart
        preconditions = BatchPreconditions(
            to_kafka, query.claim(to_kafka), query.owner, {}, JobClock(lambda: None, 600_000)
        )
        self._sink = ExactlyOnceSink(
            to_kafka, checkpoint, preconditions, PARTITIONS, self.reports.append, self.publisher
        )

    def run(self, batch: int, outcomes: Sequence[dict[str, Any]]) -> None:
        """Run a batch, which may have been run before."""
        self._query.begin(batch)
        names = OUTCOME_SCHEMA.names
        rows = [tuple(int(row[name]) if name == "kind" else row[name] for name in names) for row in outcomes]
        self._sink(
            self._query.spark.createDataFrame(rows, OUTCOME_SCHEMA).repartition(PARTITIONS, "half_offset"), batch
        )


def messages(topic: str, *numbers: int) -> list[dict[str, Any]]:
    """Deliveries ``tx-<n>`` of value ``<n>``."""
    return [
        outcome(topic, transaction_id=f"tx-{number}", key=b"key", value=b"%d" % number, half_offset=number, headers="")
        for number in numbers
    ]
