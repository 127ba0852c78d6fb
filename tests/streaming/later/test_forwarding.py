"""Half messages that consumers have written to ``cb.later`` get to ``cb.half``, each once."""

import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from checkback.exceptions import JobFailedError, TakenOverError
from checkback.kafka.librdkafka import transactional as transactions
from checkback.kafka.librdkafka.errors import serve
from checkback.kafka.librdkafka.transactional import Transactional
from streaming.brokers.directory import Brokers, Described
from streaming.kafka_sink import transaction
from streaming.later import clients as later_clients
from streaming.later.clients import LaterClients
from streaming.later.forwarding import Forwarder
from tests.by_hand import NOT_UTF_8, Record, write_by_hand
from tests.place import Place, wait_until
from tests.streaming.later.scene import (
    Headers,
    Remembering,
    dead_letters,
    ended_by,
    ends,
    forwarder_of,
    halves,
    headers_of,
    limit,
    moving,
    retry_of,
    transactional,
    write,
)


def test_records_are_moved_as_they_are(place: Place, forwarder: Forwarder) -> None:
    write(place, b"one", None)
    wait_until(lambda: len(halves(place)) == 2)
    for record, value in zip(place.read(place.topics.half), (b"one", None), strict=True):
        assert (record.partition, record.key, record.value, record.headers) == (1, b"key", value, headers_of(place))


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
    producer.flush(120)
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
    served = serve

    def fenced_once(_: object, seconds: float) -> int:
        monkeypatch.setattr(transactions, "serve", served)
        return served(fenced, seconds)

    with moving(place):
        write(place, b"one")
        wait_until(lambda: halves(place) == [b"one"])
        monkeypatch.setattr(transactions, "serve", fenced_once)
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


def test_what_the_half_topic_does_not_take_is_a_dead_letter_of_its_group(place: Place) -> None:
    limit(place, place.topics.half, 1_000)
    dead = dead_letters(place)
    with moving(place):
        wanted: Headers = [*retry_of(place), ("checkback-tries", b"1")]
        write(place, b"small", bytes(2_000), headers=wanted)
        write(place, bytes(3_000), headers=retry_of(place, "2", "of-nobody"))
        wait_until(lambda: bool(place.read(place.topics.rejected)))
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
    dead_letters(place, partitions=2)
    wanted = retry_of(place)
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
    dead_letters(place)
    write(place, bytes(2_000), headers=retry_of(place))
    write(place, b"another's")
    with moving(place):
        wait_until(lambda: halves(place) == [b"another's"])
    (rejected,) = place.read(place.topics.rejected)
    reason = dict(rejected.headers)["cb-reason"]
    assert b"half does not take it" in reason
    assert f"{dead} did not take a message in time".encode() in reason


def test_what_no_topic_takes_whole_is_rejected_with_its_head(place: Place) -> None:
    limit(place, place.topics.half, 1_000)
    limit(place, place.topics.rejected, 200_000)
    write(place, bytes(300_000))
    write(place, b"next")
    with moving(place):
        wait_until(lambda: halves(place) == [b"next"])
    (head,) = place.read(place.topics.rejected)
    assert (len(head.value), head.headers[-1][0]) == (64 << 10, "cb-cut")


MOST = 1_048_400
"""What a record of one such part may have, at most, in cb.later."""


def hostile(place: Place) -> dict[str, Record]:
    good = [(name.encode(), content or b"") for name, content in retry_of(place)]
    return {
        "no headers": (b"k", b"v", []),
        "a name that is not UTF-8": (b"k", b"v", [*good, (NOT_UTF_8, b"1")]),
        "many of them": (b"k", b"v", [(NOT_UTF_8, None)] * 1_000),
        "a surrogate": (b"k", b"v", [(b"\xed\xa0\x80", b"")]),
        "a zero byte in a name": (b"k", b"v", [(b"cb-id\x00x", b"1"), (b"\x00", b"1")]),
        "an empty name": (b"k", b"v", [*good, (b"", b"")]),
        "ours twice": (b"k", b"v", [*good, *good]),
        "200,000 headers": (b"k", b"v", [(b"a", b"")] * 200_000),
        "100,000 headers": (b"k", b"v", [(b"a", b"")] * 100_000),
        "nothing at all": (None, None, []),
        "nothing but headers": (None, None, good),
        "empty": (b"", b"", good),
        "a huge number": (b"k", b"v", [*good, (b"cb-deliver-at", b"9" * 30), (b"cb-partition", b"9" * 4_000)]),
        "a large name": (b"k", b"v", [(b"n" * MOST, b"")]),
        "a large header": (b"k", b"v", [*good, (b"a", bytes(MOST))]),
        "a large key": (bytes(MOST), b"v", good),
        "a large value": (b"k", bytes(MOST), good),
        "a retry topic of nobody": (b"k", b"v", [(b"cb-topic", b"cb.retry."), (b"cb-id", b"1")]),
        "a topic that is no text": (b"k", b"v", [(b"cb-topic", NOT_UTF_8), (NOT_UTF_8, NOT_UTF_8)]),
    }


NOT_ITS_OWN: dict[str, Callable[[Headers], Headers]] = {
    "a real topic": lambda good: [*good[:2], ("cb-topic", b"orders"), good[3]],
    "another group's retries": lambda good: [good[0], ("cb-group", b"another"), *good[2:]],
    "two topics": lambda good: [*good, ("cb-topic", b"orders")],
    "two groups": lambda good: [("cb-group", b"another"), *good],
    "several messages": lambda good: [*good, ("cb-messages", b"[]")],
    "undecided: somebody is to be asked": lambda good: good[:3],
    "parked": lambda good: [*good[:3], ("cb-action", b"park")],
    "no group": lambda good: [good[0], *good[2:]],
}


def test_who_may_write_there_has_nothing_delivered_to_another_topic(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    """The job may write everywhere, and a consumer may not: what is no retry of its own group is rejected."""
    for change in NOT_ITS_OWN.values():
        write(place, b"forged", headers=change(retry_of(place)))
    write(place, b"last")
    with moving(place):
        wait_until(lambda: halves(place)[-1:] == [b"last"])
    assert halves(place) == [b"last"]
    rejected = place.read(place.topics.rejected)
    assert [record.value for record in rejected] == [b"forged"] * len(NOT_ITS_OWN)
    assert all(b"a record of" in (dict(record.headers)["cb-reason"] or b"") for record in rejected)
    said = [record.getMessage() for record in caplog.records if "tried again later" in record.getMessage()]
    assert len(said) == 1, "a line for each would fill the log"
    assert f"and {len(NOT_ITS_OWN) - 1} more" in said[0]


def test_a_hostile_record_is_set_aside_alone(place: Place) -> None:
    """All around it are moved, in their order; it itself is in ``cb.half``, or rejected with the reason."""
    host, port = place.bootstrap_servers.split(":")
    all_hostile = hostile(place)
    for number, record in enumerate(all_hostile.values()):
        write(place, b"%d" % number)
        write_by_hand((host, int(port)), place.topics.later, 1, record)
    write(place, b"last")
    with moving(place):
        wait_until(lambda: halves(place)[-1:] == [b"last"])
    own = [record.value for record in place.read(place.topics.half) if record.headers == headers_of(place)]
    assert own == [*(b"%d" % number for number in range(len(all_hostile))), b"last"]
    reasons = [dict(record.headers)["cb-reason"] for record in place.read(place.topics.rejected)]
    unread = [reason for reason in reasons if b"a record of" not in reason]
    not_utf_8, none = b"a header's name is not UTF-8", b"it has no headers, or more than 100,000"
    assert sorted(unread) == sorted([none, not_utf_8, not_utf_8, not_utf_8, none, none, not_utf_8])
    assert len(halves(place)) + len(reasons) == 2 * len(all_hostile) + 1
