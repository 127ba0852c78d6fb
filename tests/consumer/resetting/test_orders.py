"""How a consumer hears of a reset; no Kafka."""

import logging
import threading
import time
from collections import deque
from collections.abc import Mapping
from concurrent.futures import Future

import pytest

from checkback.consumer.listener import ReceivedMessage, TopicPartition
from checkback.consumer.resetting.control import ResetDone, ResetOrder
from checkback.consumer.resetting.orders import Orders, ResetListener
from checkback.exceptions import CheckbackError, KafkaUnreachableError
from tests.place import wait_until

NOW_MS = 1_800_000_000_000
ORDER = ResetOrder("one", "points", "orders", {0: 5, 1: 6, 2: 7})
P0, P1, P2 = (TopicPartition("orders", number) for number in range(3))


def record(key: bytes, value: bytes | None, time_ms: int = NOW_MS) -> ReceivedMessage:
    return ReceivedMessage("cb.control", 0, 0, key, value, (), time_ms)


def told(order: ResetOrder, time_ms: int = NOW_MS) -> ReceivedMessage:
    return record(order.key, order.value, time_ms)


def orders() -> Orders:
    return Orders("points", "me")


def test_an_order_for_the_group_is_heard() -> None:
    assert orders().heard([told(ORDER)], NOW_MS) == [ORDER]
    done = ResetDone("one", 0, 9, 5, "another")
    assert orders().heard([record(done.key, done.value), record(b"else", b"else")], NOW_MS) == []


def test_orders_of_other_groups_are_not() -> None:
    assert orders().heard([told(ResetOrder("one", "mail", "orders", {0: 5}))], NOW_MS) == []


def test_the_last_word_counts() -> None:
    later = ResetOrder("two", "points", "orders", {0: 1})
    assert orders().heard([told(ORDER), told(later)], NOW_MS) == [later]
    assert orders().heard([told(ORDER), record(ORDER.key, None)], NOW_MS) == []


def test_an_old_order_is_passed_over(caplog: pytest.LogCaptureFixture) -> None:
    assert orders().heard([told(ORDER, NOW_MS - 600_001)], NOW_MS) == []
    assert "too old" in caplog.text
    assert orders().heard([told(ORDER, NOW_MS - 600_000)], NOW_MS) == [ORDER]


@pytest.mark.parametrize("value", [b"{", ORDER.value.replace(b'"0"', b'"' + b"9" * 5_000 + b'"')])
def test_what_is_no_order_is_passed_over(value: bytes, caplog: pytest.LogCaptureFixture) -> None:
    assert orders().heard([record(ORDER.key, value)], NOW_MS) == []
    assert "Passed over offset 0 of cb.control" in caplog.text


def test_each_partition_is_set_once_and_reported_as_often_as_it_is_asked_for() -> None:
    mine = orders()
    assert mine.left_to_do(ORDER) == {P0: 5, P1: 6, P2: 7}
    assert mine.said(ORDER) == {}
    mine.done(ORDER, {P0: (9, 5)})
    assert mine.left_to_do(ORDER) == {P1: 6, P2: 7}
    mine.done(ORDER, {P1: (8, 6)})  # it came to us meanwhile
    asked = ResetOrder("one", "points", "orders", {1: 6, 2: 7})
    report = ResetDone("one", 1, 8, 6, "me")
    assert mine.said(asked) == {report.key: report.value}
    assert mine.left_to_do(asked) == {P2: 7}


def test_another_order_begins_anew_and_forgets_the_one_before() -> None:
    mine = orders()
    mine.done(ORDER, {P0: (9, 5)})
    mine.done(
        ResetOrder("retries", "points", "cb.retry.points", {0: 0}), {TopicPartition("cb.retry.points", 0): (3, 0)}
    )
    again = ResetOrder("two", "points", "orders", {0: 5})
    assert mine.left_to_do(again) == {P0: 5}
    mine.done(again, {P0: (7, 5)})
    assert set(mine._done) == {"retries", "two"}


class Script:
    """A control topic that is written to by hand."""

    def __init__(self) -> None:
        self.there = True
        self.records: deque[ReceivedMessage] = deque()
        self.written: list[Mapping[bytes, bytes | None]] = []
        self.failing = 0
        self.opened = self.closed = 0

    def __call__(self) -> "Script":
        self.opened += 1
        return self

    def go_to_end(self) -> bool:
        return self.there

    def read(self, seconds: float) -> list[ReceivedMessage]:
        if self.failing:
            self.failing -= 1
            raise KafkaUnreachableError("away")
        if not self.records:
            time.sleep(0.01)
            return []
        return [self.records.popleft()]

    def write(self, records: Mapping[bytes, bytes | None]) -> None:
        if records:
            self.written.append(records)

    def close(self) -> None:
        self.closed += 1


class Consumer:
    """Has partitions 0 and 1, at offset 9."""

    def __init__(self) -> None:
        self.asked: list[dict[TopicPartition, int]] = []
        self.failing = 0

    def reset(self, offsets: Mapping[TopicPartition, int]) -> "Future[Mapping[TopicPartition, tuple[int, int]]]":
        self.asked.append(dict(offsets))
        future: Future[Mapping[TopicPartition, tuple[int, int]]] = Future()
        if self.failing:
            self.failing -= 1
            future.set_exception(CheckbackError("busy"))
        else:
            future.set_result({place: (9, offset) for place, offset in offsets.items() if place in {P0, P1}})
        return future


def fresh() -> ReceivedMessage:
    return told(ORDER, time.time_ns() // 1_000_000)


def test_a_running_consumer_carries_out_and_reports(caplog: pytest.LogCaptureFixture) -> None:
    script, consumer = Script(), Consumer()
    listener = ResetListener("points", script)
    listener.start(consumer)
    script.records.append(fresh())
    wait_until(lambda: len(script.written) == 1)
    script.records.append(fresh())
    wait_until(lambda: len(script.written) == 2)
    listener.stop()
    assert consumer.asked == [{P0: 5, P1: 6, P2: 7}, {P2: 7}]
    assert [set(said) for said in script.written] == [{b"done/one/0", b"done/one/1"}] * 2
    assert (script.opened, script.closed) == (1, 1)
    assert "orders-0 was set from offset 9 to 5, by order one" in caplog.text


def test_a_reset_that_fails_is_tried_again_with_the_next_repetition() -> None:
    script, consumer = Script(), Consumer()
    consumer.failing = 1
    listener = ResetListener("points", script)
    listener.start(consumer)
    script.records += [fresh(), fresh()]
    wait_until(lambda: len(script.written) == 1)
    listener.stop()
    assert len(consumer.asked) == 2


def test_it_listens_on_when_kafka_was_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("checkback.consumer.resetting.orders._AGAIN_SECONDS", 0.01)
    script, consumer = Script(), Consumer()
    script.failing = 2
    listener = ResetListener("points", script)
    listener.start(consumer)
    script.records.append(fresh())
    wait_until(lambda: len(script.written) == 1)
    listener.stop()
    assert (script.opened, script.closed) == (3, 3)


def test_without_the_topic_it_says_so_and_waits(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    script = Script()
    script.there = False
    listener = ResetListener("points", script)
    listener.start(Consumer())
    wait_until(lambda: "checkback topics create" in caplog.text)
    listener.stop()
    assert not any(thread.name == "checkback-control" for thread in threading.enumerate())
