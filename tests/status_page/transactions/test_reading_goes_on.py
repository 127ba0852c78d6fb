"""A reader of the lists goes on: topics made again, Kafka away, a full disk."""

import sqlite3
import threading
from types import SimpleNamespace
from typing import Any

import pytest
from kafka.errors import KafkaConnectionError, KafkaTimeoutError, TopicAuthorizationFailedError

from checkback.exceptions import NotAllowedError
from checkback.wire.protocol import HalfPosition
from conf import Settings
from status_page.transactions.lookup import Transactions
from status_page.transactions.reading import IndexReader, ListStanding
from status_page.transactions.schema import PARKED, STATUS
from tests.place import wait_until
from tests.status_page.transactions.scene import TOPICS, FakeConsumer, Set, parked, row


def test_a_topic_that_was_made_again_is_read_again(it: Set) -> None:
    it.consumer.logs[TOPICS.status] = [row("0:1"), row("0:2")]
    it.reading.begin()
    it.steps()
    it.consumer.make(TOPICS.status)
    it.consumer.logs[TOPICS.status] = [row("5:1"), row("5:2"), row("5:3")]
    it.steps()
    assert it.ids() == ["tx-5:1", "tx-5:2", "tx-5:3"]


def test_what_a_topic_lacks_that_was_made_again_is_said_until_the_job_has_written_all_of_it(it: Set) -> None:
    it.consumer.logs[TOPICS.status] = [row("0:1"), row("0:2")]
    it.reading.begin()
    it.steps()
    assert it.standing.lacking == ""
    del it.consumer.logs[TOPICS.status]
    it.steps()
    assert it.standing.lacking == "Kafka has no topic cb.status: run 'checkback topics create'."
    it.consumer.make(TOPICS.status)
    it.consumer.logs[TOPICS.status] = [row("0:1")]
    IndexReader(TOPICS, it.index, it.consumer, it.progress).begin()  # another connection, after a failure
    it.steps()
    gone = "cb.status was deleted and made again: what the job wrote there before may be missing for up to"
    assert (it.standing.complete, it.standing.lacking) == (False, f"{gone} 1 h 59 min.")
    it.steps(1, seconds=7_200)
    assert it.standing == ListStanding(complete=True)


def test_a_topic_that_has_lost_records_is_read_again(it: Set) -> None:
    it.consumer.logs[TOPICS.status] = [row("0:1"), row("0:2")]
    it.consumer.logs[TOPICS.parked] = [parked("0:5"), parked("0:6"), parked("0:7")]
    it.reading.begin()
    it.steps()
    it.consumer.logs[TOPICS.status].pop()
    it.steps()
    assert it.ids() == ["tx-0:1"]
    it.consumer.starts[TOPICS.parked] = 2
    it.steps()
    assert [str(one.half) for one in it.index.parked()] == ["0:7"]
    assert it.standing.complete


def test_topics_that_are_missing_are_named_until_they_are_there(it: Set) -> None:
    it.consumer.logs.clear()
    it.reading.begin()
    it.steps()
    problem = "Kafka has no topic cb.status and cb.parked: run 'checkback topics create'."
    assert it.standing == ListStanding(problem=problem)
    it.consumer.make(TOPICS.parked)
    it.consumer.logs[TOPICS.parked] = [parked("0:5")]
    it.steps()
    assert it.standing == ListStanding(problem="Kafka has no topic cb.status: run 'checkback topics create'.")
    assert it.index.total(PARKED.name).number == 1
    it.consumer.make(TOPICS.status)
    it.steps()
    assert it.standing == ListStanding(complete=True)


def test_while_kafka_is_away_what_was_read_stays(it: Set) -> None:
    it.consumer.logs[TOPICS.status] = [row("0:1")]
    it.reading.begin()
    it.steps()
    it.consumer.fails = KafkaTimeoutError("no answer")
    it.steps(3, seconds=10)
    assert it.ids() == ["tx-0:1"]
    assert it.standing.complete
    assert it.standing.away_seconds == 20.0
    assert "no answer" in it.standing.problem
    it.consumer.fails = None
    it.consumer.logs[TOPICS.status].append(row("0:2"))
    it.steps()
    assert it.standing == ListStanding(complete=True)
    assert it.ids() == ["tx-0:1", "tx-0:2"]


def test_where_topics_end_is_asked_rarely(it: Set) -> None:
    it.reading.begin()
    it.steps(200, seconds=0.5)
    assert it.consumer.looks == 10


class Followed:
    """A follower with a consumer for each connection."""

    def __init__(self, *consumers: FakeConsumer | Exception) -> None:
        self.consumers = list(consumers)
        self.connected = 0
        self.follower = Transactions(Settings(), self._connect)
        self.index = self.follower.index

    def _connect(self) -> FakeConsumer:
        self.connected += 1
        one = self.consumers[min(self.connected, len(self.consumers)) - 1]
        if isinstance(one, Exception):
            raise one
        return one


def test_the_thread_goes_on_after_whatever_goes_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("status_page.transactions.lookup._RETRY_SECONDS", (0.01,))
    odd_one, good = FakeConsumer(), FakeConsumer()
    odd_one.polls_fail = ZeroDivisionError("odd")
    good._cluster = odd_one._cluster  # these are the same topics
    good.logs[TOPICS.status] = [row("0:1")]
    it = Followed(KafkaConnectionError("no"), OSError("no"), odd_one, good)
    it.follower.start()
    it.follower.start()
    wait_until(lambda: it.index.total(STATUS.name).number == 1)
    wait_until(lambda: it.follower.standing() == ListStanding(complete=True))
    assert it.connected == 4
    assert odd_one.closed
    it.follower.stop()
    it.follower.stop()
    assert good.closed
    assert not [one for one in threading.enumerate() if one.name == "status-page"]
    it.follower.start()
    wait_until(lambda: it.connected == 5)
    it.follower.stop()


def test_a_full_disk_is_said_and_what_was_read_is_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("status_page.transactions.lookup._RETRY_SECONDS", (0.01,))
    consumer = FakeConsumer()
    consumer.logs[TOPICS.status] = [row("0:1")]
    it = Followed(consumer)
    full = threading.Event()
    full.set()
    take, said = it.index.take_status, list[str]()

    def taken(rows: Any) -> None:
        said.append(it.follower.standing().problem)
        if full.is_set():
            raise sqlite3.OperationalError("database or disk is full")
        take(rows)

    monkeypatch.setattr(it.index, "take_status", taken)
    it.follower.start()
    wait_until(lambda: "cannot be kept: database or disk is full" in it.follower.standing().problem)
    full.clear()
    wait_until(lambda: it.index.in_doubt_at(HalfPosition(0, 1)) is not None)
    it.follower.stop()


def test_a_topic_that_kafka_hides_is_not_said_to_be_missing(it: Set) -> None:
    del it.consumer.logs[TOPICS.status]
    hidden = SimpleNamespace(error_code=TopicAuthorizationFailedError.errno)
    it.consumer._net = SimpleNamespace(run=lambda *_: SimpleNamespace(topics=[hidden]))
    with pytest.raises(NotAllowedError, match=r"grant its user Read on the topic cb\.status"):
        it.reading.begin()
