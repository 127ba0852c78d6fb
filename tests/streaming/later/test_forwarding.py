"""Half messages that consumers have written to ``cb.later`` get to ``cb.half``, each once."""

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from kafka import KafkaAdminClient
from kafka import TopicPartition as PythonPartition
from kafka.admin import ConfigResource, ConfigResourceType, NewPartitions

from checkback.exceptions import CheckbackError, JobFailedError, JobStoppedError, TakenOverError
from checkback.kafka.librdkafka import transactional as transactions
from checkback.kafka.librdkafka.transactional import Transactional
from checkback.operations.topics import TopicAdministration
from streaming.brokers.client import SinkSettings
from streaming.brokers.directory import Brokers, Described
from streaming.kafka_sink import transaction
from streaming.later import clients as later_clients
from streaming.later import forwarding
from streaming.later.clients import LaterClients
from streaming.later.forwarding import Forwarder
from tests.by_hand import NOT_UTF_8, Record, write_by_hand
from tests.place import HALF_PARTITIONS, Place, wait_until

HEADERS: list[tuple[str, bytes | None]] = [("cb-id", b"1"), ("cb-topic", b"x"), ("a", None), ("a", b"\xff"), ("", b"")]


class Remembering:
    """A checkpoint, as far as the forwarder needs it."""

    def __init__(self) -> None:
        self.topics = set[str]()

    def remembers_later(self, topic_id: str) -> bool:
        return topic_id in self.topics

    def remember_later(self, topic_id: str) -> None:
        self.topics.add(topic_id)


def no_other() -> None:
    """Nobody has taken the topics over."""


def settings(place: Place) -> SinkSettings:
    return SinkSettings(place.bootstrap_servers, place.topics, 60_000)


def forwarder_of(
    place: Place, memory: Remembering | None = None, refuse_another: Callable[[], None] = no_other
) -> Forwarder:
    return Forwarder(settings(place), memory or Remembering(), refuse_another)


@contextmanager
def moving(place: Place, memory: Remembering | None = None) -> Iterator[Forwarder]:
    made = forwarder_of(place, memory)
    made.start()
    yield made
    made.stop()
    made.raise_if_dead()


@pytest.fixture
def forwarder(place: Place) -> Iterator[Forwarder]:
    with moving(place) as made:
        yield made


def transactional(place: Place, name: str) -> Producer:
    producer = Producer({"bootstrap.servers": place.bootstrap_servers, "transactional.id": name, "linger.ms": 0})
    producer.init_transactions(20)
    return producer


def write(place: Place, *values: bytes | None, headers: Any = HEADERS, partition: int = 1) -> None:
    producer = transactional(place, f"{place.topics.prefix}{threading.get_ident()}")
    producer.begin_transaction()
    for value in values:
        producer.produce(place.topics.later, value, b"key", partition, headers=headers)
    producer.commit_transaction(20)


def halves(place: Place) -> list[bytes | None]:
    return [record.value for record in place.read(place.topics.half)]


def test_records_are_moved_as_they_are(place: Place, forwarder: Forwarder) -> None:
    write(place, b"one", None)
    wait_until(lambda: len(halves(place)) == 2)
    for record, value in zip(place.read(place.topics.half), (b"one", None), strict=True):
        assert (record.partition, record.key, record.value, record.headers) == (1, b"key", value, HEADERS)


def test_a_transaction_whose_offsets_are_lost_is_made_again_and_each_is_moved_once(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Librdkafka has lost the call: the next clients fence, and go on."""
    lost: list[bool] = []

    add = Transactional.add_offsets

    def add_offsets(*given: Any) -> None:
        if lost:
            lost.clear()
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "not taken", retriable=True))
        add(*given)

    with moving(place):
        write(place, b"zero")
        wait_until(lambda: len(halves(place)) == 1)
        lost.append(True)
        monkeypatch.setattr(Transactional, "add_offsets", add_offsets)
        write(place, b"one", b"other")
        wait_until(lambda: len(halves(place)) == 3)
        assert not lost
        write(place, b"third")
        wait_until(lambda: halves(place) == [b"zero", b"one", b"other", b"third"])


def test_what_is_not_committed_is_not_moved(place: Place, forwarder: Forwarder) -> None:
    producer = transactional(place, f"{place.topics.prefix}aborts")
    producer.begin_transaction()
    producer.produce(place.topics.later, b"never", b"key", 0)
    producer.flush(20)
    producer.abort_transaction(20)
    write(place, b"one", partition=0)
    wait_until(lambda: halves(place) == [b"one"])


def test_another_one_goes_on_where_the_first_has_stopped_and_takes_its_place(place: Place) -> None:
    taken = threading.Event()

    def refuse_another() -> None:
        if taken.is_set():
            raise TakenOverError("Another job has taken over.")

    memory = Remembering()
    first, second = forwarder_of(place, memory, refuse_another), forwarder_of(place, memory)
    first.start()
    write(place, *[b"%d" % number for number in range(100)])
    wait_until(lambda: len(halves(place)) == 100)
    taken.set()
    second.start()
    write(place, *[b"%d" % number for number in range(100, 200)])
    wait_until(lambda: len(halves(place)) == 200)
    write(place, b"200")
    wait_until(lambda: ends(first), what="its end")
    wait_until(lambda: len(halves(place)) == 201)
    with pytest.raises(TakenOverError):
        first.raise_if_dead()
    second.raise_if_dead()
    second.stop()
    assert sorted(halves(place)) == sorted(b"%d" % number for number in range(201))  # type: ignore[type-var]  # none is null


def test_who_is_fenced_by_kafka_itself_goes_on(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    """As it does when a transaction's time is over: to the client that looks as if another had taken its place."""
    with moving(place):
        write(place, b"one")
        wait_until(lambda: halves(place) == [b"one"])
        transactional(place, f"checkback-later:{place.topics.prefix}")
        write(place, b"two")
        wait_until(lambda: halves(place) == [b"one", b"two"])
    assert "Kafka has ended a transaction that moved" in caplog.text


def fenced(*_: object) -> int:
    """What flush does when a fatal error comes while it calls our callback."""
    fatal = KafkaException(KafkaError(KafkaError._FENCED, "fenced", fatal=True))
    raise SystemError("returned a result with an exception set") from fatal


def test_who_is_fenced_within_a_call_goes_on_too(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    served = transactions._served

    def fenced_once(_: object, seconds: float) -> int:
        monkeypatch.setattr(transactions, "_served", served)
        return served(fenced, seconds)

    with moving(place):
        write(place, b"one")
        wait_until(lambda: halves(place) == [b"one"])
        monkeypatch.setattr(transactions, "_served", fenced_once)
        write(place, b"two")
        wait_until(lambda: halves(place) == [b"one", b"two"])


def test_what_nobody_has_thought_of_ends_the_job_and_not_the_thread_alone(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LaterClients, "begin", lambda *_: 1 / 0)
    forwarder = forwarder_of(place)
    forwarder.start()
    wait_until(lambda: ends(forwarder), what="its end")
    with pytest.raises(JobFailedError, match=r"later failed: ZeroDivisionError"):
        forwarder.raise_if_dead()


def ends(forwarder: Forwarder) -> bool:
    return not forwarder._thread.is_alive()


def test_what_the_half_topic_does_not_take_is_a_dead_letter_of_its_group(place: Place) -> None:
    dead = place.topics.dead("points")
    limit(place, place.topics.half, 1_000)
    with TopicAdministration(place.bootstrap_servers) as administration:
        administration.create_one(dead, 1)
        administration.wait_for([dead])
    forwarder = forwarder_of(place)
    forwarder.start()
    wanted = [("cb-id", b"1"), ("cb-topic", place.topics.retry("points").encode()), ("checkback-tries", b"1")]
    write(place, b"small", bytes(2_000), headers=wanted)
    write(place, bytes(3_000), headers=[("cb-id", b"2"), ("cb-topic", b"elsewhere")])
    wait_until(lambda: bool(place.read(place.topics.rejected)))
    forwarder.stop()
    forwarder.raise_if_dead()
    assert halves(place) == [b"small"]
    (letter,) = place.read(dead)
    assert letter.value == bytes(2_000)
    assert [name for name, _ in letter.headers] == ["checkback-tries", "checkback-reason"]
    (rejected,) = place.read(place.topics.rejected)
    assert dict(rejected.headers)["cb-from"] == f"{place.topics.later}:1:3".encode()


@pytest.mark.parametrize("told", [True, False])
def test_a_refused_record_found_after_another_has_taken_over_moves_nothing_again(
    place: Place, monkeypatch: pytest.MonkeyPatch, *, told: bool
) -> None:
    """The machine stood still between the refusal and the next step. Or it asked who has taken over just before."""
    taken = threading.Event()

    def refuse_another() -> None:
        if taken.is_set():
            raise TakenOverError("Another job has taken over.")

    values = [b"%d" % number for number in range(10)]
    failed = transaction.KafkaTransaction.failed
    memory = Remembering()

    def moved_by_another(self: transaction.KafkaTransaction, *given: Any) -> Exception:
        monkeypatch.setattr(transaction.KafkaTransaction, "failed", failed)
        found = failed(self, *given)
        with moving(place, memory):
            wait_until(lambda: len(halves(place)) == len(values))
        if told:
            taken.set()
        return found

    limit(place, place.topics.half, 1_000)
    write(place, *values[:5], bytes(3_000), *values[5:])
    monkeypatch.setattr(transaction.KafkaTransaction, "failed", moved_by_another)
    first = forwarder_of(place, memory, refuse_another)
    first.start()
    wait_until(lambda: len(halves(place)) == len(values))
    if told:
        assert isinstance(ended_by(first), TakenOverError)
    else:
        write(place, b"last")
        wait_until(lambda: halves(place)[-1:] == [b"last"])
        first.stop()
        first.raise_if_dead()
        values.append(b"last")
    assert halves(place) == values
    assert len(place.read(place.topics.rejected)) == 1


def test_what_does_not_come_through_in_time_is_moved_in_smaller_transactions(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Brokers that take three records in the time that a transaction has."""
    commit, produce = transaction.KafkaTransaction.commit, transaction.KafkaTransaction.produce
    written: list[int] = []

    def counted(self: transaction.KafkaTransaction, records: Sequence[Any]) -> int:
        written.append(len(records))
        return produce(self, records)

    def late(self: transaction.KafkaTransaction, *given: Any) -> None:
        if written[-1] > 3:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "messages timed out"))
        commit(self, *given)

    monkeypatch.setattr(transaction.KafkaTransaction, "produce", counted)
    monkeypatch.setattr(transaction.KafkaTransaction, "commit", late)
    values = [b"%d" % number for number in range(8)]
    write(place, *values)
    with moving(place):
        wait_until(lambda: len(halves(place)) == len(values))
    assert halves(place) == values


def test_a_dead_letter_whose_topic_has_no_leader_is_not_begun(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kafka could not end the transaction, and refuses the next one until there is a leader again."""
    dead = place.topics.dead("points")
    describe = Brokers.describe
    asked: list[str] = []

    def without_leader(self: Brokers, topic: str) -> Described:
        asked.append(topic)
        return Described(None, {0: (1, 1), 1: None}) if topic == dead else describe(self, topic)

    monkeypatch.setattr(Brokers, "describe", without_leader)
    monkeypatch.setattr(later_clients, "_LEADER_SECONDS", 0.1)
    limit(place, place.topics.half, 1_000)
    with TopicAdministration(place.bootstrap_servers) as administration:
        administration.create_one(dead, 2)
        administration.wait_for([dead])
    wanted = [("cb-id", b"1"), ("cb-topic", place.topics.retry("points").encode())]
    write(place, bytes(2_000), bytes(2_000), headers=wanted)
    write(place, b"another's")
    with moving(place):
        wait_until(lambda: halves(place) == [b"another's"])
        first = asked.count(dead)
        write(place, bytes(2_000), headers=wanted)
        wait_until(lambda: len(place.read(place.topics.rejected)) == 3)
        assert asked.count(dead) == first, "it waits for a leader again"
    assert not place.read(dead)


def test_a_dead_letter_whose_topic_takes_nothing_holds_nobody_back(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its partition has no leader: librdkafka waits for one as long as the transaction has time."""
    dead = place.topics.dead("points")
    commit, produce = transaction.KafkaTransaction.commit, transaction.KafkaTransaction.produce
    letters: list[bool] = []

    def noted(self: transaction.KafkaTransaction, records: Sequence[Any]) -> int:
        letters.append(any(record.topic == dead for record in records))
        return produce(self, records)

    def timed_out(self: transaction.KafkaTransaction, *given: Any) -> None:
        if letters[-1]:
            self._stall.left.add((dead, 0))
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "1 message(s) timed out"))
        commit(self, *given)

    monkeypatch.setattr(transaction.KafkaTransaction, "produce", noted)
    monkeypatch.setattr(transaction.KafkaTransaction, "commit", timed_out)
    limit(place, place.topics.half, 1_000)
    with TopicAdministration(place.bootstrap_servers) as administration:
        administration.create_one(dead, 1)
        administration.wait_for([dead])
    write(place, bytes(2_000), headers=[("cb-id", b"1"), ("cb-topic", place.topics.retry("points").encode())])
    write(place, b"another's")
    with moving(place):
        wait_until(lambda: halves(place) == [b"another's"])
    (rejected,) = place.read(place.topics.rejected)
    reason = dict(rejected.headers)["cb-reason"]
    assert b"half does not take it" in reason
    assert f"{dead} did not take a message in time".encode() in reason


def limit(place: Place, topic: str, size: int) -> None:
    with closing(KafkaAdminClient(bootstrap_servers=place.bootstrap_servers)) as admin:
        admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, {"max.message.bytes": str(size)})])


def test_what_no_topic_takes_whole_is_rejected_with_its_head(place: Place) -> None:
    limit(place, place.topics.half, 1_000)
    limit(place, place.topics.rejected, 200_000)
    write(place, bytes(300_000))
    write(place, b"next")
    with moving(place):
        wait_until(lambda: halves(place) == [b"next"])
    (head,) = place.read(place.topics.rejected)
    assert (len(head.value), head.headers[-1][0]) == (64 << 10, "cb-cut")


def forget(place: Place, *partitions: int) -> None:
    """Kafka forgets offsets of the forwarder's group, as it does after ``offsets.retention.minutes``."""
    with closing(KafkaAdminClient(bootstrap_servers=place.bootstrap_servers)) as admin:
        admin.delete_group_offsets(
            place.topics.later, [PythonPartition(place.topics.later, number) for number in partitions]
        )


def stored(place: Place) -> list[int]:
    """Offsets of the forwarder's group, by partition; negative where there is none."""
    group = {"group.id": place.topics.later, "bootstrap.servers": place.bootstrap_servers}
    # else there is none while a transaction is under way
    with closing(Consumer({**group, "isolation.level": "read_uncommitted"})) as consumer:
        asked = [TopicPartition(place.topics.later, number) for number in range(HALF_PARTITIONS)]
        return [one.offset for one in consumer.committed(asked, timeout=10)]


def set_by_hand(place: Place, number: int, offset: int) -> None:
    """As ``kafka-consumer-groups.sh --reset-offsets`` does."""
    group = {"group.id": place.topics.later, "bootstrap.servers": place.bootstrap_servers}
    with closing(Consumer({**group, "enable.auto.commit": False})) as consumer:
        consumer.commit(offsets=[TopicPartition(place.topics.later, number, offset)], asynchronous=False)


def ended_by(forwarder: Forwarder) -> CheckbackError:
    wait_until(lambda: ends(forwarder), what="its end")
    with pytest.raises(CheckbackError) as caught:
        forwarder.raise_if_dead()
    return caught.value


@pytest.mark.parametrize("forgotten", [[1], [0, 1]])
def test_what_kafka_has_forgotten_is_not_moved_again(place: Place, forgotten: Sequence[int]) -> None:
    memory = Remembering()
    with moving(place, memory):
        write(place, b"one", b"two")
        wait_until(lambda: len(halves(place)) == 2)
    forget(place, *forgotten)
    write(place, b"three")
    stopped = forwarder_of(place, memory)
    stopped.start()
    error = ended_by(stopped)
    assert isinstance(error, JobStoppedError)
    numbers = ",".join(map(str, forgotten))
    assert f"--group {place.topics.later} --topic {place.topics.later}:{numbers} --reset-offsets" in str(error)
    assert len(halves(place)) == 2
    for number in forgotten:
        set_by_hand(place, number, 2 if number == 1 else 0)
    with moving(place, memory):
        wait_until(lambda: halves(place) == [b"one", b"two", b"three"])


def test_where_nothing_comes_the_topics_are_looked_at(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of one that was made again after a broker had been restarted librdkafka hears nothing while it waits."""
    looked: list[object] = []

    def look(clients: LaterClients) -> None:
        looked.append(clients)

    monkeypatch.setattr(forwarding, "_LOOK_SECONDS", 0.1)
    monkeypatch.setattr(LaterClients, "look", look)
    with moving(place, Remembering()):
        wait_until(lambda: len(looked) > 4)


def test_what_kafka_forgets_while_it_runs_is_stored_again(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of them, also of partitions where nothing has ever been moved; and before anything is moved, at the start."""
    memory = Remembering()
    write(place, b"one")
    with moving(place, memory):
        wait_until(lambda: len(halves(place)) == 1)
        assert min(stored(place)) >= 0
    monkeypatch.setattr(forwarding, "_RENEWAL_SECONDS", 0.1)
    with moving(place, memory):
        write(place, b"two")
        wait_until(lambda: len(halves(place)) == 2)
        for gone in ([0], [1], [0, 1]):
            forget(place, *gone)
            wait_until(lambda: min(stored(place)) >= 0, what="offsets of all partitions")
    with moving(place, memory):
        write(place, b"three", partition=0)
        wait_until(lambda: sorted(halves(place)) == [b"one", b"three", b"two"])  # type: ignore[type-var]  # none is null


def test_a_partition_that_is_added_is_read_from_its_first_record(place: Place, forwarder: Forwarder) -> None:
    write(place, b"one")
    wait_until(lambda: len(halves(place)) == 1)
    with closing(KafkaAdminClient(bootstrap_servers=place.bootstrap_servers)) as admin:
        admin.create_partitions({place.topics.later: NewPartitions(3)})
    with TopicAdministration(place.bootstrap_servers) as administration:
        wait_until(lambda: administration.partitions([place.topics.later])[place.topics.later] == 3)
    write(place, b"two", partition=2)
    write(place, b"three")  # which is when it looks
    wait_until(lambda: sorted(halves(place)) == [b"one", b"three", b"two"])  # type: ignore[type-var]  # none is null


def make_again(place: Place) -> None:
    later = place.topics.later
    with closing(KafkaAdminClient(bootstrap_servers=place.bootstrap_servers)) as admin:
        admin.delete_topics([later])
        with TopicAdministration(place.bootstrap_servers) as administration:
            wait_until(lambda: later not in administration.partitions([later]))
            administration.create_one(later, HALF_PARTITIONS)
            administration.wait_for([later])


@pytest.mark.parametrize("running", [True, False])
def test_a_topic_that_was_made_again_is_moved_from_its_first_record(place: Place, *, running: bool) -> None:
    """Also where the new one is as long as the old one at once: its offsets say nothing of it."""
    memory = Remembering()
    first = forwarder_of(place, memory)
    first.start()
    write(place, b"one", b"two")
    wait_until(lambda: len(halves(place)) == 2)
    if not running:
        first.stop()
    make_again(place)
    write(place, b"three", b"four", b"five", b"six")
    second = first if running else forwarder_of(place, memory)
    if not running:
        second.start()
    wait_until(lambda: len(halves(place)) == 6)
    write(place, b"seven")
    wait_until(lambda: halves(place) == [b"one", b"two", b"three", b"four", b"five", b"six", b"seven"])
    second.stop()
    second.raise_if_dead()


def test_a_log_that_ends_before_what_was_moved_stops_the_job(place: Place) -> None:
    memory = Remembering()
    with moving(place, memory):
        write(place, b"one")
        wait_until(lambda: len(halves(place)) == 1)
    set_by_hand(place, 1, 9)  # what the brokers of a truncated log would have stored
    stopped = forwarder_of(place, memory)
    stopped.start()
    assert "lost records at the end" in str(ended_by(stopped))


def test_an_operator_may_pass_over_what_is_not_committed_yet(place: Place) -> None:
    """As --to-latest does: to the end of the log, behind what readers of committed records see as its end."""
    memory = Remembering()
    with moving(place, memory):
        write(place, b"one")
        wait_until(lambda: len(halves(place)) == 1)
    producer = transactional(place, f"{place.topics.prefix}open")
    producer.begin_transaction()
    producer.produce(place.topics.later, b"never", b"key", 1)
    producer.flush(20)
    write(place, b"neither")
    set_by_hand(place, 1, log_end(place, 1))
    with moving(place, memory):
        write(place, b"two")
        producer.commit_transaction(20)
        wait_until(lambda: halves(place) == [b"one", b"two"])


def log_end(place: Place, number: int) -> int:
    group = {"group.id": place.topics.later, "bootstrap.servers": place.bootstrap_servers}
    with closing(Consumer({**group, "isolation.level": "read_uncommitted"})) as consumer:
        _, end = consumer.get_watermark_offsets(TopicPartition(place.topics.later, number), timeout=10)
        return int(end)


def test_what_retention_removes_is_passed_over(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    memory = Remembering()
    with moving(place, memory):
        write(place, b"one")
        wait_until(lambda: len(halves(place)) == 1)
    write(place, b"two")
    with closing(KafkaAdminClient(bootstrap_servers=place.bootstrap_servers)) as admin:
        admin.delete_records({PythonPartition(place.topics.later, 1): -1})
    write(place, b"three")
    with caplog.at_level(logging.ERROR), moving(place, memory):
        wait_until(lambda: halves(place) == [b"one", b"three"])
    assert "retries among them are lost" in caplog.text


GOOD = (b"cb-id", b"1"), (b"cb-topic", b"x")
MOST = 1_048_400
"""What a record of one such part may have, at most, in cb.later."""
HOSTILE: dict[str, Record] = {
    "no headers": (b"k", b"v", []),
    "a name that is not UTF-8": (b"k", b"v", [*GOOD, (NOT_UTF_8, b"1")]),
    "many of them": (b"k", b"v", [(NOT_UTF_8, None)] * 1_000),
    "a surrogate": (b"k", b"v", [(b"\xed\xa0\x80", b"")]),
    "a zero byte in a name": (b"k", b"v", [(b"cb-id\x00x", b"1"), (b"\x00", b"1")]),
    "an empty name": (b"k", b"v", [*GOOD, (b"", b"")]),
    "ours twice": (b"k", b"v", [*GOOD, *GOOD]),
    "200,000 headers": (b"k", b"v", [(b"a", b"")] * 200_000),
    "100,000 headers": (b"k", b"v", [(b"a", b"")] * 100_000),
    "nothing at all": (None, None, []),
    "nothing but headers": (None, None, GOOD),
    "empty": (b"", b"", GOOD),
    "a huge number": (b"k", b"v", [*GOOD, (b"cb-deliver-at", b"9" * 30), (b"cb-partition", b"9" * 4_000)]),
    "a large name": (b"k", b"v", [(b"n" * MOST, b"")]),
    "a large header": (b"k", b"v", [*GOOD, (b"a", bytes(MOST))]),
    "a large key": (bytes(MOST), b"v", GOOD),
    "a large value": (b"k", bytes(MOST), GOOD),
    "a retry topic of nobody": (b"k", b"v", [(b"cb-topic", b"cb.retry."), (b"cb-id", b"1")]),
    "a topic that is no text": (b"k", b"v", [(b"cb-topic", NOT_UTF_8), (NOT_UTF_8, NOT_UTF_8)]),
}


def test_a_hostile_record_is_set_aside_alone(place: Place) -> None:
    """All around it are moved, in their order; it itself is in ``cb.half``, or rejected with the reason."""
    host, port = place.bootstrap_servers.split(":")
    for number, record in enumerate(HOSTILE.values()):
        write(place, b"%d" % number)
        write_by_hand((host, int(port)), place.topics.later, 1, record)
    write(place, b"last")
    with moving(place):
        wait_until(lambda: halves(place)[-1:] == [b"last"])
    own = [record.value for record in place.read(place.topics.half) if record.headers == HEADERS]
    assert own == [*(b"%d" % number for number in range(len(HOSTILE))), b"last"]
    reasons = [dict(record.headers)["cb-reason"] for record in place.read(place.topics.rejected)]
    not_utf_8, none = b"a header's name is not UTF-8", b"it has no headers, or more than 100,000"
    assert sorted(reasons) == sorted([none, not_utf_8, not_utf_8, not_utf_8, none, none, not_utf_8])
    assert len(halves(place)) + len(reasons) == 2 * len(HOSTILE) + 1
