"""Order, tags, batches, coroutines, and how much is held at once."""

import asyncio
import threading
from collections.abc import Sequence
from typing import Any

import pytest

from checkback.consumer import (
    AsyncPushConsumer,
    ConsumeResult,
    MessageCounts,
    Order,
    PushConsumer,
    ReceivedMessage,
)
from checkback.consumer.offsets.metadata import Stored
from checkback.exceptions import ConsumerError
from tests.consumer.consuming.scene import LATER, ORDERS, QUICK, SUCCESS, changed, consumer, numbered
from tests.consumer.kafka_fake import FakeKafka
from tests.consumer.waiting import Recording, soon


def test_a_window_that_is_full_pauses_reading_until_the_old_message_ends() -> None:
    kafka = FakeKafka()
    kafka.write("orders", *numbered(400))
    go_on = threading.Event()

    def says(message: ReceivedMessage, _: int) -> ConsumeResult:
        if message.offset == 0:
            go_on.wait(20)
        return SUCCESS

    with consumer(kafka, seen := Recording(says), changed(max_span=150)) as points:
        soon(lambda: len(seen.values) == 200)
        client = points._engine._client
        soon(lambda: ORDERS in client.paused)  # type: ignore[attr-defined]  # the fake's
        assert len(seen.values) == 200
        go_on.set()
        soon(lambda: len(seen.values) == 400)


def test_what_is_held_of_all_partitions_together_is_bounded() -> None:
    """A message of each partition is more than its share."""
    kafka, large, most = FakeKafka(), bytes(1 << 20), 16 << 20  # each has its value as its id, too
    kafka.write("orders", large)
    go_on = threading.Event()

    def says(_: ReceivedMessage, __: int) -> ConsumeResult:
        go_on.wait(60)
        return SUCCESS

    seen = Recording(says)
    kafka.topics["orders"] = 100
    with consumer(kafka, seen, changed(max_bytes=most)) as points:
        soon(lambda: seen.messages)  # how large they are is known now
        for number in range(1, 100):
            kafka.write("orders", large, large, partition=number)
        client: Any = points._engine._client
        soon(lambda: len(client.paused) >= 100)
        assert sum(one.held for one in points.figures().partitions) in {8, 9}
        go_on.set()
        soon(lambda: len(seen.messages) == 199)


def test_with_an_order_by_partition_a_failing_message_holds_up_those_behind_it() -> None:
    kafka = FakeKafka()
    kafka.write("orders", *numbered(5))
    seen = Recording(lambda message, before: LATER if message.value == b"001" and before < 3 else SUCCESS)
    with consumer(kafka, seen, changed(order=Order.PARTITION)):
        soon(lambda: len(seen.values) == 8)
    assert seen.values == [b"000", b"001", b"001", b"001", b"001", b"002", b"003", b"004"]
    assert [message.tries for message in seen.messages[1:5]] == [0, 1, 2, 3]
    assert kafka.written == []


def test_with_an_order_by_partition_it_is_dead_after_the_limit_and_the_others_go_on() -> None:
    kafka = FakeKafka()
    kafka.write("orders", *numbered(3))
    seen = Recording(lambda message, _: LATER if message.value == b"000" else SUCCESS)
    with consumer(kafka, seen, changed(order=Order.PARTITION, max_reconsume_times=2)):
        soon(lambda: kafka.stored_offsets.get(ORDERS, Stored(0)).offset == 3)
    assert seen.values == [b"000", b"000", b"000", b"001", b"002"]
    assert [record.topic for record in kafka.written] == ["cb.dlq.points"]


def test_with_an_order_by_key_a_failing_message_holds_up_its_key_alone() -> None:
    kafka = FakeKafka()
    for number in range(4):
        kafka.write("orders", b"a%d" % number, key=b"a")
        kafka.write("orders", b"b%d" % number, key=b"b")
    failing = threading.Event()
    seen = Recording(lambda message, _: LATER if message.value == b"a0" and not failing.is_set() else SUCCESS)
    with consumer(kafka, seen, changed(order=Order.KEY, max_reconsume_times=1_000)):
        soon(lambda: b"b3" in seen.values)
        assert b"a1" not in seen.values
        failing.set()
        soon(lambda: b"a3" in seen.values)
    in_order = [value for value in seen.values if value.startswith(b"b")]
    assert in_order == [b"b0", b"b1", b"b2", b"b3"]
    assert [value for value in seen.values if value in {b"a1", b"a2", b"a3"}] == [b"a1", b"a2", b"a3"]


def test_tags_choose_and_what_is_not_wanted_moves_the_window() -> None:
    kafka = FakeKafka()
    kafka.write("orders", b"old")
    for number, tag in enumerate((b"paid", b"new", b"refunded")):
        message = ReceivedMessage("orders", 0, number, None, tag, [("tags", tag)])
        kafka.logs[ORDERS][number:] = [message]
    seen = Recording()
    wanted = {"orders": "paid||refunded"}
    with PushConsumer("fake", "points", seen, wanted, settings=QUICK, clients=kafka) as points:
        soon(lambda: kafka.stored_offsets.get(ORDERS, Stored(0)).offset == 3)
        assert points.figures().topics["orders"] == MessageCounts(done=2, filtered=1)
    assert sorted(seen.values) == [b"paid", b"refunded"]


@pytest.mark.parametrize("order", [Order.PARTITION, Order.KEY])
@pytest.mark.parametrize("key", [b"a customer", None])
def test_a_batch_with_an_order_that_has_failed_comes_one_by_one_and_the_bad_one_dies_alone(
    order: Order, key: bytes | None
) -> None:
    kafka = FakeKafka()
    kafka.write("orders", *numbered(9), key=key)
    batches: list[list[bytes]] = []

    def listener(messages: Sequence[ReceivedMessage]) -> ConsumeResult:
        batches.append([message.value or b"" for message in messages])
        return LATER if b"004" in batches[-1] else SUCCESS

    settings = changed(batch=3, order=order, concurrency=1, max_reconsume_times=2)
    with PushConsumer("fake:9092", "points", listener, "orders", settings=settings, clients=kafka):
        soon(lambda: kafka.stored_offsets.get(ORDERS, Stored(0)).offset == 9)
    assert [record.value for record in kafka.written] == [b"004"]
    if key or order is Order.PARTITION:
        assert batches == [numbered(3), numbered(6)[3:], [b"003"], [b"004"], [b"004"], [b"005"], numbered(9)[6:]]


def test_a_batch_is_done_or_later_as_a_whole() -> None:
    kafka = FakeKafka()
    kafka.write("orders", *numbered(7))
    batches: list[list[bytes | None]] = []

    def listener(messages: Sequence[ReceivedMessage]) -> ConsumeResult:
        batches.append([message.value for message in messages])
        return LATER if messages[0].value == b"003" else SUCCESS

    settings = changed(batch=3, concurrency=1)
    with PushConsumer("fake", "points", listener, "orders", settings=settings, clients=kafka) as points:
        soon(lambda: points.figures().all == MessageCounts(done=4, retried=3))
    assert batches == [numbered(7)[:3], numbered(7)[3:6], numbered(7)[6:]]
    assert [record.value for record in kafka.written] == numbered(7)[3:6]


def test_a_listener_that_hangs_is_given_up_and_nothing_else_waits() -> None:
    kafka = FakeKafka()
    kafka.write("orders", b"hangs", *numbered(20))
    released = threading.Event()

    def says(message: ReceivedMessage, _: int) -> ConsumeResult:
        if message.value == b"hangs":
            released.wait(60)
        return SUCCESS

    with consumer(kafka, Recording(says), changed(concurrency=1, listener_timeout=0.2)) as points:
        soon(lambda: points.figures().all == MessageCounts(done=20, retried=1))
        assert [record.value for record in kafka.written] == [b"hangs"]
        released.set()
    assert kafka.stored_offsets[ORDERS] == Stored(21)


def test_a_listener_may_be_a_coroutine() -> None:
    kafka = FakeKafka()
    kafka.write("orders", *numbered(50))
    at_once = most = 0
    seen: list[bytes] = []
    all_seen = asyncio.Event()

    async def listener(message: ReceivedMessage) -> ConsumeResult:
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        await asyncio.sleep(0.005)
        at_once -= 1
        seen.append(message.value or b"")
        if len(seen) == 50:
            all_seen.set()
        if message.value == b"007":
            raise ValueError("no")
        return SUCCESS

    async def run() -> None:
        settings = changed(concurrency=5)
        async with AsyncPushConsumer("fake", "points", listener, "orders", settings=settings, clients=kafka) as it:
            await asyncio.wait_for(all_seen.wait(), 20)
            await asyncio.to_thread(soon, lambda: it.figures().all == MessageCounts(done=49, retried=1))
            assert not await it.wait(0)

    asyncio.run(run())
    assert sorted(seen) == numbered(50)
    assert most == 5
    assert [record.value for record in kafka.written] == [b"007"]
    assert kafka.stored_offsets[ORDERS].offset == 50


def test_a_loop_that_is_closed_ends_the_consumer() -> None:
    kafka = FakeKafka()
    kafka.write("orders", b"x")

    async def listener(_: ReceivedMessage) -> ConsumeResult:
        return SUCCESS

    async def run() -> AsyncPushConsumer:
        points = AsyncPushConsumer("fake", "points", listener, "orders", settings=QUICK, clients=kafka)
        return await points.start()

    points = asyncio.run(run())
    assert points._engine.wait(20)
    with pytest.raises(ConsumerError, match="event loop was closed"):
        points.raise_if_dead()
