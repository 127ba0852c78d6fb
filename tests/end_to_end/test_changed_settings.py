"""A job that dies between Kafka and Spark's commit log is upgraded only when that batch has ended."""

from collections.abc import Callable

import pytest
from pyspark.sql import SparkSession

from checkback import Message, TransactionOptions, TransactionProducer
from checkback.exceptions import CheckpointMismatchError, JobFailedError
from checkback.wire.protocol import Action, Source, op_headers
from state import RULES_VERSION
from streaming import BatchReport, TransactionJob, settings_in_force
from streaming.batch.failpoints import Failpoint
from tests.end_to_end.job import running
from tests.place import Place, wait_until

ACCEPT, REQUIRE = ({"timeout": "1h", "late_end_transaction": choice} for choice in ("accept", "require_check"))


class DyingJob:
    """Dies when a batch that rejected something is in Kafka, and Spark's commit log does not have it."""

    def __init__(self) -> None:
        self._seen = False

    def observe(self, report: BatchReport) -> None:
        self._seen = report.counts["rejected"] > 0

    def __call__(self, step: Failpoint, _batch: int) -> None:
        if step is Failpoint.BATCH_ENDS and self._seen:
            raise RuntimeError("the driver dies here")

    def __reduce__(self) -> tuple[type["DyingJob"], tuple[()]]:
        return DyingJob, ()  # tasks get a copy, which sees nothing


@pytest.fixture
def late(place: Place, spark: SparkSession) -> Callable[[], None]:
    """Writes a producer's commit of a message that is open, and whose own check immunity is over."""
    options = TransactionOptions(check_immunity_ms=0)
    with TransactionProducer(place.bootstrap_servers, "shop", topics=place.topics) as producer:
        message = producer.prepare(Message(place.real_topic, b"value"), options=options)
    with running(place, spark, transactions=ACCEPT, checks={"in_job": False}) as counts:
        wait_until(lambda: counts["half"] == 1)

    def commit() -> None:
        headers = op_headers(message.transaction_id, "shop", message.half, Action.COMMIT, Source.PRODUCER)
        with place.producer() as kafka:
            kafka.send(place.topics.op, b"", headers=headers, partition=message.half.partition).get(120)

    return commit


def test_an_upgrade_waits_for_a_batch_that_is_in_kafka_and_for_no_other(
    place: Place, spark: SparkSession, late: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    late()
    dying, settings = DyingJob(), place.settings(transactions=REQUIRE, checks={"in_job": False})
    with (
        pytest.raises(JobFailedError, match="The query failed"),
        TransactionJob(settings, dying.observe, spark, dying) as job,
    ):
        wait_until(lambda: job.wait(1), what="the job's death")
    with monkeypatch.context() as upgraded:
        upgraded.setattr(settings_in_force, "RULES_VERSION", 99)
        with pytest.raises(CheckpointMismatchError, match=rf"\(rules {RULES_VERSION}, this one has 99\)"):
            TransactionJob(place.settings(transactions=REQUIRE), spark=spark).start()
    with running(place, spark, transactions=REQUIRE, checks={"in_job": False}) as counts:
        late()
        wait_until(lambda: counts["rejected"] >= 1)
    checkpoint = place.folder / "checkpoint"
    begun, finished = (max(int(f.name) for f in (checkpoint / log).glob("[0-9]*")) for log in ("offsets", "commits"))
    assert begun > finished, "a job that was told to stop has begun a batch, and no more"
    monkeypatch.setattr(settings_in_force, "RULES_VERSION", 99)
    with running(place, spark, transactions=ACCEPT, checks={"in_job": False}) as counts:
        late()
        wait_until(lambda: counts["committed"] == 1)
    assert [record.value for record in place.read(place.real_topic)] == [b"value"]
