"""Settings changed while a batch is unfinished, on a real Spark with injected time."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from conf import Settings
from state import Event, OutcomeKind
from streaming.folders import LocalFolder
from streaming.settings_in_force import BatchSettings, SettingsInForce
from tests.streaming.stateful.test_segments import Stream, half, half_with, kinds, op

ACCEPT: dict[str, Any] = {"late_end_transaction": "accept"}
REQUIRE: dict[str, Any] = {"late_end_transaction": "require_check"}
MINUTE = 60_000


class Job:
    """A stream whose settings are kept as the job keeps them, and what Kafka has of its batches."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self.runs = stream.runs
        self.feed = stream.feed
        self.stop = stream.stop

    def start(self, tolerance_ms: int = 10 * MINUTE, **transactions: Any) -> None:
        given = {"segment_size": 64, "timer_slack": "1ms", "timeout": "1h", **transactions}
        rules = SettingsInForce(LocalFolder(self._stream.checkpoint))
        rules.take(BatchSettings.of(Settings.model_validate({"transactions": given})), {}, lambda _batch: True)
        self._stream.start(rules.policies(), tolerance_ms)

    def die(self, after_ms: int, *rows: dict[str, Any]) -> None:
        """Bring rows; the driver dies when Kafka has the batch and Spark's commit log does not."""
        self._stream.dies = True
        with pytest.raises(Exception, match="the driver dies here"):
            self._stream.feed(after_ms, *rows)
        self._stream.dies = False

    def in_kafka(self, kind: OutcomeKind) -> list[str]:
        """Ids of outcomes of a kind; Kafka skips a batch that it has, whatever a second run of it comes to."""
        batches: dict[int, list[dict[str, Any]]] = {}
        for number, made in self._stream.runs:
            batches.setdefault(number, made)
        return [row["transaction_id"] for made in batches.values() for row in made if row["kind"] == kind]


@pytest.fixture
def job(spark: SparkSession, tmp_path: Path) -> Iterator[Job]:
    made = Job(Stream(spark, tmp_path))
    yield made
    made.stop()


LATE = half_with(1, ("cb-immunity-ms", b"1000"))  # open, and its own check immunity is over after 1 s
DECISION = op(1, Event.COMMIT)
AGAIN = op(1, Event.COMMIT, 1)
OPERATOR = op(1, Event.OPERATOR_COMMIT, 1)


def test_a_decision_that_was_refused_is_not_taken_as_delivered(job: Job) -> None:
    job.start(**REQUIRE)
    job.feed(0, LATE)
    job.die(2_000, DECISION)
    assert job.in_kafka(OutcomeKind.REJECT_OP) == ["tx-1"]
    job.start(**ACCEPT)
    job.feed(3_000, AGAIN)
    assert job.in_kafka(OutcomeKind.DELIVER) == ["tx-1"]


def test_a_message_that_was_delivered_is_not_open_again(job: Job) -> None:
    job.start(**ACCEPT)
    job.feed(0, LATE)
    job.die(2_000, DECISION)
    assert job.in_kafka(OutcomeKind.DELIVER) == ["tx-1"]
    job.start(**REQUIRE)
    job.feed(3_000, OPERATOR)
    assert job.in_kafka(OutcomeKind.DELIVER) == ["tx-1"]


def test_a_batch_cut_off_twice_keeps_its_settings_through_a_third_start(job: Job) -> None:
    job.start(**REQUIRE)
    job.feed(0, LATE)
    job.die(2_000, DECISION)
    job.start(**ACCEPT)
    job.stop()
    job.start(**REQUIRE)
    job.stop()
    job.start(**ACCEPT)
    job.feed(3_000, AGAIN)
    assert job.in_kafka(OutcomeKind.DELIVER) == ["tx-1"]


def test_what_parks_after_the_last_check_is_decided_once(job: Job) -> None:
    job.start(check_max=0, on_exhausted="park", timeout="5s")
    job.feed(0, half(1))
    job.die(5_001)
    assert job.in_kafka(OutcomeKind.PARK) == ["tx-1"]
    job.start(check_max=0, on_exhausted="commit", timeout="5s")
    job.feed(6_000, OPERATOR)
    assert (job.in_kafka(OutcomeKind.PARK), job.in_kafka(OutcomeKind.DELIVER)) == (["tx-1"], ["tx-1"])


def test_a_tolerance_that_was_raised_makes_nothing_early(job: Job) -> None:
    job.start(5 * MINUTE, timeout="20min")
    job.feed(0, half(1))
    job.feed(1_000)
    job.stop()
    job.start(30 * MINUTE, timeout="20min")
    assert job.feed(2_000) == []
    assert job.feed(20 * MINUTE - 1) == []
    late = (30 - 5) * MINUTE
    assert kinds(job.feed(20 * MINUTE + late + 1)) == [(OutcomeKind.CHECK, "tx-1"), (OutcomeKind.STATUS, "tx-1")]


def test_timers_of_a_tolerance_that_was_lowered_find_nothing_due_and_are_set_again(job: Job) -> None:
    job.start(30 * MINUTE, timeout="20min")
    job.feed(0, half(1))
    job.feed(1_000)
    job.stop()
    job.start(5 * MINUTE, timeout="20min")
    assert job.feed(2_000) == []
    assert job.feed(10 * MINUTE) == []  # set for 20 min - 30 min, the watermark is at 5 min
    assert job.feed(20 * MINUTE - 1) == []
    assert kinds(job.feed(20 * MINUTE + 1)) == [(OutcomeKind.CHECK, "tx-1"), (OutcomeKind.STATUS, "tx-1")]


@pytest.mark.parametrize("minutes", [5, 30])
def test_a_batch_of_timers_run_again_under_another_tolerance_comes_to_the_same(job: Job, minutes: int) -> None:
    job.start(timeout="20min")
    job.feed(0, half(1), half_with(2, ("cb-immunity-ms", b"%d" % (30 * MINUTE))))
    job.die(20 * MINUTE + 1)
    number, first = job.runs[-1]
    assert kinds(first) == [(OutcomeKind.CHECK, "tx-1"), (OutcomeKind.STATUS, "tx-1")]
    job.start(minutes * MINUTE, timeout="20min")
    job.feed(20 * MINUTE + 1)
    assert [made for again, made in job.runs if again == number] == [first, first]
