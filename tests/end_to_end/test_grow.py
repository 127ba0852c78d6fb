"""A checkpoint gets other state partitions, and goes on: nothing is lost, and nothing comes twice."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner, Result

from checkback import CallableListener, CheckEndpoint, LocalTransactionState, Message, TransactionProducer
from checkback.exceptions import CheckpointMismatchError
from checkback_cli import app
from tests.end_to_end.job import running
from tests.place import STATE_PARTITIONS, Place, find_by_environment, wait_until

TIMES = {"timeout": "25s", "check_interval": "5s"}


class SessionsSpark:
    """The test session's Spark, which the command cannot stop."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def __getattr__(self, name: str) -> Any:
        return getattr(self._spark, name)

    def stop(self) -> None:
        """The next test needs it."""


@pytest.fixture
def checkpoint(place: Place, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The checkpoint that the grow command finds by its settings; it runs on the test session's Spark."""
    find_by_environment(place, monkeypatch)
    monkeypatch.setenv("CHECKBACK_JOB__NAME", place.topics.prefix.rstrip("."))
    monkeypatch.setenv("CHECKBACK_JOB__MASTER", "local[2]")
    monkeypatch.setattr("streaming.growing.build_session", lambda _: SessionsSpark(spark))
    # a handler that stays would write to the closed output of this call
    monkeypatch.setattr("checkback_cli.running.commands.log_to_stdout", lambda _: None)
    return place.folder / "checkpoint"


def send(place: Place, numbers: range) -> None:
    """Send these numbers; every second transaction stays open until a check endpoint answers."""
    with TransactionProducer(place.bootstrap_servers, "shop", topics=place.topics) as producer:
        for number in numbers:
            half = producer.prepare(Message(place.real_topic, b"%d" % number, key=b"%d" % (number % 5)))
            if not number % 2:
                producer.commit(half)


def run_until(place: Place, spark: SparkSession, delivered: int, partitions: int = STATE_PARTITIONS) -> list[int]:
    """Run the job until this many messages are delivered, and return their values."""

    def values() -> list[int]:
        return sorted(int(record.value) for record in place.read(place.real_topic))

    with running(place, spark, transactions=TIMES, job={"state_partitions": partitions}):
        wait_until(lambda: len(values()) >= delivered, f"{delivered} messages")
    return values()


def grow(partitions: int) -> Result:
    return CliRunner().invoke(app, ["grow", "--state-partitions", str(partitions)])


def as_if_cut_off(checkpoint: Path, partitions: int, before: int) -> None:
    """After Spark's batch was begun, and before it had ended."""
    newest = max((checkpoint / "commits").glob("[0-9]*"), key=lambda file: int(file.name))
    for file in (newest, newest.with_name(f".{newest.name}.crc")):
        file.unlink(missing_ok=True)
    as_if_growing(checkpoint, partitions, before)


def as_if_power_was_lost(checkpoint: Path, partitions: int, before: int) -> None:
    """After Spark's batch had ended: of what it wrote some is empty."""
    newest = max(int(file.name) for file in (checkpoint / "commits").glob("[0-9]*"))
    for number in (0, partitions - 1):
        state = checkpoint / "state" / "0" / str(number)
        (state / f".{newest + 1}.zip.crc").unlink(missing_ok=True)
        (state / f"{newest + 1}.zip").write_bytes(b"")
    as_if_growing(checkpoint, partitions, before)


def as_if_growing(checkpoint: Path, partitions: int, before: int) -> None:
    (checkpoint / f"checkback-partitions-{partitions}").unlink()
    (checkpoint / f"checkback-partitions-{before}").touch()
    (checkpoint / f"checkback-growing-{partitions}").touch()


def test_what_is_open_goes_on_in_more_partitions_also_when_that_was_cut_off(
    place: Place, spark: SparkSession, checkpoint: Path
) -> None:
    send(place, range(60))
    assert run_until(place, spark, 30) == list(range(0, 60, 2)), "nothing was left open for what is tested"
    done = grow(5)
    assert "has 5 state partitions now, and had 2" in done.output, (done.output, done.exception)
    send(place, range(60, 80))
    as_if_cut_off(checkpoint, 5, 2)
    with pytest.raises(CheckpointMismatchError, match="'checkback grow --state-partitions 5' was cut off"):
        run_until(place, spark, 0)
    assert "type it again" in str(grow(4).exception)
    given_up = grow(2)
    assert "has 2 state partitions." in given_up.output, (given_up.output, given_up.exception)
    run_until(place, spark, 40)  # it is the old one, and goes on
    assert grow(3).exit_code == 0  # and no job does a batch before it grows again
    again = grow(5)
    assert again.exit_code == 0, (again.output, again.exception)
    for cut_off in (as_if_cut_off, as_if_power_was_lost):
        cut_off(checkpoint, 5, 3)
        again = grow(5)
        assert again.exit_code == 0, (again.output, again.exception)
    (checkpoint / "checkback-growing-5").touch()  # all but the last step was done
    assert grow(5).exit_code == 0
    committed = CallableListener(*[lambda *_: LocalTransactionState.COMMIT] * 2)
    with CheckEndpoint(place.bootstrap_servers, "shop", committed, topics=place.topics):
        assert run_until(place, spark, 80, partitions=5) == list(range(80))
