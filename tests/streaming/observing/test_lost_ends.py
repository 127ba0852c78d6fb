"""How far the job has read, as its group says, while the broker loses the end of a log. The broker is its own."""

import shutil
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from checkback.exceptions import CheckpointMismatchError
from checkback.local import LocalKafka
from checkback.operations.topics import TopicAdministration
from checkback.wire.groups import display_group
from checkback.wire.protocol import Topics
from streaming.brokers.client import SinkSettings
from streaming.observing import job_group
from streaming.observing.job_group import JobGroup
from tests.place import wait_until

TOPICS = Topics()
HALF, OP = (TOPICS.half, 0), (TOPICS.op, 0)
NOWHERE = SinkSettings("localhost:1", TOPICS, 1_000)


class Log:
    """The half topic of one broker."""

    def __init__(self, folder: Path) -> None:
        self.broker = LocalKafka(folder / "kafka").start()
        self._folder = folder
        with TopicAdministration(self.broker.bootstrap_servers) as administration:
            for topic in (TOPICS.half, TOPICS.op):
                administration.create_one(topic, 1)
            administration.wait_for([TOPICS.half, TOPICS.op])

    def write(self, count: int) -> None:
        producer = Producer({"bootstrap.servers": self.broker.bootstrap_servers, "log_level": 0})
        for _ in range(count):
            producer.produce(TOPICS.half, b"v" * 100, partition=0)
        assert producer.flush(120) == 0

    def keep_copy(self) -> None:
        self.broker.stop()
        shutil.copytree(self._log, self._folder / "copy")
        self.broker.start()

    def lose_what_came_since(self) -> None:
        """The broker dies, and starts with the log as it was copied, as after a power loss."""
        self.broker.kill()
        shutil.rmtree(self._log)
        shutil.copytree(self._folder / "copy", self._log)
        (self._log.parent / ".kafka_cleanshutdown").unlink(missing_ok=True)
        self.broker.start()

    def group(self, query_id: str = "query") -> JobGroup:
        return JobGroup(SinkSettings(self.broker.bootstrap_servers, TOPICS, 60_000), query_id)

    def committed(self) -> TopicPartition | None:
        own = {"bootstrap.servers": self.broker.bootstrap_servers, "group.id": display_group(TOPICS), "log_level": 0}
        consumer = Consumer(own)
        try:
            (place,) = consumer.committed([TopicPartition(*HALF)], timeout=60)
        except KafkaException:  # the group's coordinator begins
            return None
        finally:
            consumer.close()
        return place

    @property
    def _log(self) -> Path:
        return self._folder / "kafka" / "log" / f"{TOPICS.half}-0"


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Log]:
    monkeypatch.setattr(job_group, "_EVERY_SECONDS", 0.0)
    log = Log(tmp_path)
    yield log
    log.broker.stop()


def commit(log: Log, group: JobGroup, half: int) -> TopicPartition:
    """Wait until Kafka has it: what fails is tried again with the next batch."""
    places: list[TopicPartition] = []

    def is_committed() -> bool:
        group.read_to({HALF: half, OP: 0})
        place = log.committed()
        places[:] = [] if place is None else [place]
        return place is not None and place.offset == half

    wait_until(is_committed, f"offset {half} of the job's group")
    return places[0]


def test_a_log_that_lost_its_end_and_has_grown_beyond_is_refused(log: Log) -> None:
    """Spark compares offsets alone: it would never read what was written at offsets that it had read before."""
    running = log.group()
    log.write(5)
    place = commit(log, running, 5)
    assert (place.metadata, place.leader_epoch) == ("query", 0)
    log.keep_copy()
    log.write(5)
    commit(log, running, 10)  # a restart alone loses nothing
    restarted = log.group()
    restarted.refuse_truncated({HALF: 10, OP: 0})
    log.lose_what_came_since()
    log.write(10)
    after, other = log.group(), log.group("another checkpoint")
    try:
        lost = rf"lost records at the end of {TOPICS.half}:0 .*--new-checkpoint"
        with pytest.raises(CheckpointMismatchError, match=lost):
            after.refuse_truncated({HALF: 10, OP: 0})
        with pytest.raises(CheckpointMismatchError, match=lost):
            commit(log, running, 15)
        other.refuse_truncated({HALF: 10, OP: 0})
        after.refuse_truncated({HALF: 9, OP: 0})
    finally:
        for group in (running, restarted, after, other):
            group.close()


def test_without_kafka_nothing_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    group = JobGroup(NOWHERE, "query")
    group.refuse_truncated({HALF: 5, OP: 0})
    group.read_to({HALF: 5, OP: 0})
    group.close()
    assert caplog.text.count("was not read or committed") == 1


class Leaders:
    """An admin client: what the leader of the half topic answers, as offset and epoch."""

    def __init__(self) -> None:
        self.answer: tuple[int, int | None] = (0, 0)

    def list_offsets(self, places: dict[TopicPartition, object], request_timeout: float) -> dict[TopicPartition, Any]:
        end = SimpleNamespace(offset=self.answer[0], leader_epoch=self.answer[1])
        return {place: SimpleNamespace(exception=lambda: None, result=lambda: end) for place in places}


@pytest.fixture
def led(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[JobGroup, Leaders, list[int]]]:
    """A group without Kafka, the answers of leaders, and the epochs that were compared."""
    group, leaders, compared = JobGroup(NOWHERE, "query"), Leaders(), list[int]()

    def compare(places: Sequence[TopicPartition]) -> set[tuple[str, int]]:
        compared.extend(place.leader_epoch or 0 for place in places)
        return {(place.topic, place.partition) for place in places}

    monkeypatch.setattr(group, "_admin", leaders)
    monkeypatch.setattr(group, "_compared", compare)
    yield group, leaders, compared
    group.close()


@pytest.mark.parametrize("stale", [(5, 0), (-1001, None), (10, 0)], ids=["behind", "no answer", "an older epoch"])
def test_a_leader_that_was_replaced_or_does_not_answer_changes_nothing(
    led: tuple[JobGroup, Leaders, list[int]], stale: tuple[int, int | None]
) -> None:
    """It would look like a loss at the next answer, or the epoch that shows a loss would be forgotten."""
    group, leaders, compared = led
    leaders.answer = (10, 1)
    assert [place.leader_epoch for place in group._advance({HALF: 10})] == [1]
    leaders.answer = stale
    assert group._advance({HALF: 10}) == []
    leaders.answer = (12, 2)
    assert [(place.offset, place.leader_epoch) for place in group._advance({HALF: 12})] == [(12, 2)]
    assert compared == [1]


def test_a_partition_that_could_not_be_compared_is_compared_again(
    led: tuple[JobGroup, Leaders, list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    group, leaders, compared = led
    leaders.answer = (10, 1)
    group._advance({HALF: 10})
    leaders.answer = (12, 2)
    with monkeypatch.context() as patched:
        patched.setattr(group, "_compared", lambda _places: set())
        assert group._advance({HALF: 12}) == []
    assert [place.leader_epoch for place in group._advance({HALF: 12})] == [2]
    assert compared == [1]


def test_a_commit_that_no_broker_answers_does_not_hold_the_end_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_group, "_CLOSE_SECONDS", 0.2)
    group, closing = JobGroup(NOWHERE, "query"), threading.Event()
    monkeypatch.setattr(group, "_consumer", SimpleNamespace(close=lambda: closing.wait(60)))
    group.close()
    assert not closing.is_set()
    closing.set()
