"""A job that dies between Kafka and Spark's commit log, and is started again with other settings."""

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import SparkSession

from checkback import HalfMessage, Message, TransactionOptions, TransactionProducer
from checkback.exceptions import CheckpointMismatchError, JobFailedError
from checkback.wire.protocol import Action, Source, op_headers
from state import RULES_VERSION
from streaming import BatchReport, TransactionJob, settings_in_force
from streaming.batch.failpoints import Failpoint
from tests.end_to_end.job import running
from tests.place import Place, wait_until

ACCEPT, REQUIRE = ({"timeout": "1h", "late_end_transaction": choice} for choice in ("accept", "require_check"))


class DyingJob:
    """Dies when a batch that counted something is in Kafka, and Spark's commit log does not have it."""

    def __init__(self, counted: str) -> None:
        self._counted = counted
        self._seen = False

    def observe(self, report: BatchReport) -> None:
        self._seen = report.counts[self._counted] > 0

    def __call__(self, step: Failpoint, _batch: int) -> None:
        if step is Failpoint.BATCH_ENDS and self._seen:
            raise RuntimeError("the driver dies here")

    def __reduce__(self) -> tuple[type["DyingJob"], tuple[str]]:
        return DyingJob, (self._counted,)  # tasks get a copy, which sees nothing

    def run(self, place: Place, spark: SparkSession, transactions: dict[str, Any]) -> None:
        settings = place.settings(transactions=transactions, checks={"in_job": False})
        with (
            pytest.raises(JobFailedError, match="The query failed"),
            TransactionJob(settings, self.observe, spark, self) as job,
        ):
            wait_until(lambda: job.wait(1), what="the job's death")


@pytest.fixture
def late(place: Place, spark: SparkSession) -> Callable[[Action, Source], None]:
    """Writes ops for a message that is open, and whose own check immunity is over."""
    options = TransactionOptions(check_immunity_ms=0)
    with TransactionProducer(place.bootstrap_servers, "shop", topics=place.topics) as producer:
        message = producer.prepare(Message(place.real_topic, b"value"), options=options)
    with running(place, spark, transactions=ACCEPT, checks={"in_job": False}) as counts:
        wait_until(lambda: counts["half"] == 1)
    return lambda action, source: _op(place, message, action, source)


def _op(place: Place, message: HalfMessage, action: Action, source: Source) -> None:
    headers = op_headers(message.transaction_id, "shop", message.half, action, source)
    with place.producer() as kafka:
        kafka.send(place.topics.op, b"", headers=headers, partition=message.half.partition).get(120)


def test_a_decision_that_was_refused_is_not_taken_as_delivered(
    place: Place, spark: SparkSession, late: Callable[[Action, Source], None]
) -> None:
    late(Action.COMMIT, Source.PRODUCER)
    DyingJob("rejected").run(place, spark, REQUIRE)
    assert len(place.read(place.topics.rejected)) == 1
    with running(place, spark, transactions=ACCEPT, checks={"in_job": False}) as counts:
        late(Action.COMMIT, Source.PRODUCER)
        wait_until(lambda: counts["applied"] + counts["without_effect"] + counts["duplicate"] >= 1)
    assert [record.value for record in place.read(place.real_topic)] == [b"value"]


def test_a_message_that_was_delivered_is_not_open_again(
    place: Place, spark: SparkSession, late: Callable[[Action, Source], None]
) -> None:
    late(Action.COMMIT, Source.PRODUCER)
    DyingJob("committed").run(place, spark, ACCEPT)
    assert len(place.read(place.real_topic)) == 1
    with running(place, spark, transactions=REQUIRE, checks={"in_job": False}) as counts:
        late(Action.COMMIT, Source.OPERATOR)
        wait_until(lambda: counts["applied"] + counts["without_effect"] + counts["duplicate"] >= 1)
    assert [record.value for record in place.read(place.real_topic)] == [b"value"]


def test_an_upgrade_waits_for_a_batch_that_is_in_kafka_and_for_no_other(
    place: Place, spark: SparkSession, late: Callable[[Action, Source], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    late(Action.COMMIT, Source.PRODUCER)
    DyingJob("rejected").run(place, spark, REQUIRE)
    with monkeypatch.context() as upgraded:
        upgraded.setattr(settings_in_force, "RULES_VERSION", 99)
        with pytest.raises(CheckpointMismatchError, match=rf"\(rules {RULES_VERSION}, this one has 99\)"):
            TransactionJob(place.settings(transactions=REQUIRE), spark=spark).start()
    with running(place, spark, transactions=REQUIRE, checks={"in_job": False}) as counts:
        late(Action.COMMIT, Source.PRODUCER)
        wait_until(lambda: counts["rejected"] >= 1)
    checkpoint = place.folder / "checkpoint"
    begun, finished = (max(int(f.name) for f in (checkpoint / log).glob("[0-9]*")) for log in ("offsets", "commits"))
    assert begun > finished, "a job that was told to stop has begun a batch, and no more"
    monkeypatch.setattr(settings_in_force, "RULES_VERSION", 99)
    with running(place, spark, transactions=ACCEPT, checks={"in_job": False}) as counts:
        late(Action.COMMIT, Source.PRODUCER)
        wait_until(lambda: counts["committed"] == 1)
    assert [record.value for record in place.read(place.real_topic)] == [b"value"]
