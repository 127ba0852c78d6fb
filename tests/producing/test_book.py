"""What a lane's process knows of its half messages, without Kafka."""

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from checkback import CheckRequest, HalfMessage, HalfPosition, Message
from checkback.own_lanes import LaneAnswer, disown, own, owner_of
from checkback.producing.direct.book import Book
from checkback.producing.direct.entries import LaneHalf, LaneTopics, Stage, lane_half
from checkback.wire.lanes import LaneFact, new_lane
from checkback.wire.protocol import Action
from tests.place import wait_until

LANE = new_lane()


def written(book: Book, offset: int, value: bytes = b"v") -> tuple[LaneHalf, HalfMessage]:
    name = f"t{offset}"
    entry = lane_half(name, LANE, [Message("paid", value)], numbered=False)
    book.add(entry)
    book.written(entry, HalfPosition(0, offset))
    return entry, HalfMessage(name, "paid", value, None, (), HalfPosition(0, offset), lane=LANE)


def asked(message: HalfMessage, half: HalfPosition | None = None) -> CheckRequest:
    place = half or message.half
    return CheckRequest(message.transaction_id, "orders", "paid", None, b"v", [], place, 1, 15, 0, lane=LANE)


def test_committed_ones_are_taken_in_order_and_together() -> None:
    book = Book()
    pairs = [written(book, offset) for offset in range(5)]
    for _, message in reversed(pairs):
        assert book.commit(message, "") == (pairs[message.half.offset][0], False)
    assert book.take(0) == [entry for entry, _ in reversed(pairs)]
    assert book.take(0) == []


def test_a_group_is_bounded_in_number_and_bytes() -> None:
    book = Book()
    for offset in range(250):
        book.commit(written(book, offset)[1], "")
    assert [len(book.take(0)) for _ in range(3)] == [200, 50, 0]
    for offset in range(3):
        book.commit(written(book, offset, bytes(600_000))[1], "")
    assert [len(book.take(0)) for _ in range(4)] == [1, 1, 1, 0]


def test_one_larger_than_a_group_is_taken_alone() -> None:
    book = Book()
    book.commit(written(book, 1, bytes(4 << 20))[1], "")
    assert len(book.take(0)) == 1


def test_what_was_taken_out_is_the_jobs() -> None:
    book = Book()
    entry, message = written(book, 1)
    assert book.leave(message)
    assert entry.stage is Stage.LEFT
    assert book.commit(message, "") == (None, True)
    assert not entry.delivered(0)


def test_what_was_committed_is_not_taken_out() -> None:
    book = Book()
    _, message = written(book, 1)
    book.commit(message, "")
    assert not book.leave(message)
    assert not book.leaves(asked(message))
    assert book.known(asked(message)) == LaneAnswer(Action.UNKNOWN, None)


def test_an_answer_says_what_the_lane_has_done() -> None:
    book = Book()
    entry, message = written(book, 1)
    assert book.known(asked(message)) is None
    book.commit(message, "")
    book.delivered(book.take(0))
    assert entry.delivered(0)
    assert book.known(asked(message)) == LaneAnswer(Action.COMMIT, LaneFact.DELIVERED)
    assert book.known(asked(message, HalfPosition(1, 1))) == LaneAnswer(Action.UNKNOWN, None)
    book.remove(entry)
    assert entry.delivered(0)
    assert book.leaves(asked(message))


def test_who_answers_for_an_open_one_keeps_the_lane_from_it() -> None:
    book = Book()
    _, message = written(book, 1)
    assert book.leaves(asked(message))
    assert book.commit(message, "") == (None, True)


def test_one_that_is_being_written_is_promised_to_nobody() -> None:
    """It may be read, and asked about, before its writer hears of it."""
    book = Book()
    entry = lane_half("t1", LANE, [Message("paid", b"v")], numbered=False)
    book.add(entry)
    message = HalfMessage("t1", "paid", b"v", None, (), HalfPosition(0, 1), lane=LANE)
    assert book.known(asked(message)) == LaneAnswer(Action.UNKNOWN, None)
    assert not book.leaves(asked(message))
    book.written(entry, message.half)
    assert book.leaves(asked(message))


def test_waiting_for_a_delivery_ends_with_it_or_with_the_job() -> None:
    book = Book()
    entries = [written(book, offset) for offset in range(2)]
    for _, message in entries:
        book.commit(message, "")
    first, second = book.take(0)
    assert not book.drained(0)

    def end() -> None:
        book.delivered([first])
        book.remove(second)

    threading.Timer(0.05, end).start()
    assert first.delivered(10)
    assert not second.delivered(10)
    assert book.drained(10)


def test_after_the_end_all_is_the_jobs() -> None:
    book = Book()
    (waiting, one), (_, other) = written(book, 1), written(book, 2)
    book.commit(one, "")
    assert book.close() == [waiting]
    assert book.commit(one, "") == (None, True)
    assert book.commit(other, "") == (None, True)


def test_several_messages_have_ids_of_their_own() -> None:
    several = lane_half(
        "t1", LANE, [Message("a", b"1", headers=[("x", b"y")]), Message("b", None, b"k", (), 3)], numbered=True
    )
    assert [tuple(one) for one in several.records] == [
        ("a", None, None, b"1", [("cb-id", b"t1#1"), ("x", b"y")]),
        ("b", 3, b"k", None, [("cb-id", b"t1#2")]),
    ]


def test_a_lane_is_this_processes_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    book = Book()
    own(LANE, book)
    assert owner_of(LANE) is book
    assert owner_of("") is None
    monkeypatch.setattr("os.getpid", lambda: -1)
    assert owner_of(LANE) is None
    monkeypatch.undo()
    disown(LANE)
    assert owner_of(LANE) is None


def test_topics_are_looked_at_once_and_unfit_ones_again_after_a_minute() -> None:
    now, there, asks = [0.0], {"paid": 0, "wide": 4}, list[list[str]]()

    def ask(names: Sequence[str]) -> dict[str, int]:
        asks.append(list(names))
        return {name: there[name] for name in names}

    topics = LaneTopics(ask, lambda: now[0])
    paid, wide, beyond = (
        lane_half("t1", LANE, [Message(topic, b"v", partition=partition)], numbered=False)
        for topic, partition in (("paid", None), ("wide", 3), ("wide", 4))
    )
    for _ in range(2):
        topics.learn([paid, wide, paid, beyond])
        assert [topics.fit(one) for one in (paid, wide, beyond)] == [False, True, False]
    assert asks == [["paid", "wide"]], "all at once, since each question takes some ms"
    there |= {"paid": 1, "wide": 5}
    now[0] = 60.0
    topics.learn([paid, beyond])
    assert [topics.fit(one) for one in (paid, beyond)] == [True, True]


def test_a_topic_that_has_refused_a_message_is_tried_no_more() -> None:
    now, asks = [0.0], list[Sequence[str]]()

    def ask(names: Sequence[str]) -> dict[str, int]:
        asks.append(names)
        return dict.fromkeys(names, 1)

    topics = LaneTopics(ask, lambda: now[0])
    paid, wide, both = (
        lane_half("t1", LANE, [Message(topic, b"v") for topic in named], numbered=False)
        for named in (["paid"], ["wide"], ["wide", "paid"])
    )
    topics.learn([paid, wide])
    topics.refused(["paid"])
    now[0] = 3_600.0
    topics.learn([paid, wide])
    assert [topics.fit(one) for one in (paid, wide, both)] == [False, True, False]
    assert asks == [["paid", "wide"]]


def test_a_topic_of_which_kafka_says_nothing_is_tried() -> None:
    topics = LaneTopics(lambda _: {}, lambda: 0.0)
    paid = lane_half("t1", LANE, [Message("paid", b"v")], numbered=False)
    topics.learn([paid])
    assert topics.fit(paid)


def test_what_names_a_lost_lane_is_the_jobs_at_once_and_holds_back_no_key() -> None:
    book = Book(2)
    (waiting, one), (_, later) = written(book, 1), written(book, 2)
    book.commit(one, "")
    assert book.lose(LANE, 0) == [waiting]
    assert book.commit(later, "") == (None, True)
    assert book.take(0) == []


def test_what_waited_behind_a_lost_lane_goes_at_once() -> None:
    book, other = Book(2), new_lane()
    for offset, lane, slot in ((1, LANE, 0), (2, other, 1)):
        entry = lane_half(f"t{offset}", lane, [Message("paid", b"v", b"key")], numbered=False, slot=slot)
        book.add(entry)
        book.written(entry, HalfPosition(0, offset))
        book.commit(HalfMessage(f"t{offset}", "paid", b"v", b"key", (), HalfPosition(0, offset), lane=lane), "")
    assert book.take(0, 1) == []
    with ThreadPoolExecutor(1) as threads:
        taken = threads.submit(book.take, 60, 1)
        wait_until(lambda: bool(book._ready[1]._waiters))  # type: ignore[attr-defined]  # it waits
        assert [one.transaction_id for one in book.lose(LANE, 0)] == ["t1"]
        assert [one.transaction_id for one in taken.result(20)] == ["t2"]


def test_one_of_which_nobody_knows_is_waited_for_by_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("checkback.producing.direct.book._MOST_OPEN", 2)
    book = Book()
    stuck, message = written(book, 1)
    book.commit(message, "")
    book.nobody_knows(*book.take(0))
    assert book.drained(0)
    assert not book.leaves(asked(message))
    (oldest, _), (_, kept) = written(book, 2), written(book, 3)
    assert (stuck.stage, oldest.stage) == (Stage.UNKNOWN, Stage.LEFT), "the limit holds all the same"
    assert book.leave(kept)
