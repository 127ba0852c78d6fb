"""What a consumer does with what Kafka and its listener say, on a Kafka in memory."""

import asyncio
import re
import threading
import time
from functools import partial
from typing import Any

import pytest

from checkback.consumer import (
    AsyncPushConsumer,
    ConsumeResult,
    ConsumerSettings,
    MessageCounts,
    Order,
    PushConsumer,
    ReceivedMessage,
    StartAt,
    TopicPartition,
    fetching,
)
from checkback.consumer.clients.base import Connection
from checkback.consumer.offsets.metadata import Stored
from checkback.exceptions import CheckbackError, ConfigurationError, ConsumerError
from tests.consumer.consuming.scene import LATER, ORDERS, QUICK, SUCCESS, changed, consumer, numbered
from tests.consumer.kafka_fake import FakeClient, FakeKafka
from tests.consumer.waiting import Recording, soon


async def later_async(_: ReceivedMessage) -> ConsumeResult:
    return LATER


def test_all_are_done_and_stored() -> None:
    kafka = FakeKafka()
    kafka.write("orders", *numbered(250))
    seen = Recording()
    with consumer(kafka, seen) as points:
        soon(lambda: kafka.stored_offsets.get(ORDERS, Stored(0)).offset == 250)
        soon(lambda: points.figures().lag == 0)
        assert points.figures().all == MessageCounts(done=250)
    assert sorted(seen.values) == numbered(250)
    assert kafka.stored_offsets[ORDERS] == Stored(250)


class SlowToConnect(FakeKafka):
    """A client of it is made only when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.connecting, self.may = threading.Event(), threading.Event()

    def consumer(self, connection: Connection) -> Any:
        self.connecting.set()
        assert self.may.wait(60)
        return super().consumer(connection)


@pytest.mark.parametrize("cancellations", [1, 2])
def test_a_start_that_is_cancelled_leaves_no_member(cancellations: int) -> None:
    kafka = SlowToConnect()
    kafka.write("orders", *numbered(3))

    async def seen(_: ReceivedMessage) -> ConsumeResult:
        raise AssertionError("nobody has this consumer")

    async def main() -> AsyncPushConsumer:
        points = AsyncPushConsumer("fake:9092", "points", seen, "orders", settings=QUICK, clients=kafka)
        starting = asyncio.ensure_future(points.start())
        await asyncio.to_thread(kafka.connecting.wait, 60)
        for _ in range(cancellations):
            starting.cancel()
            await asyncio.sleep(0.01)
        kafka.may.set()
        with pytest.raises(asyncio.CancelledError):
            await starting
        assert await points.wait(60)
        return points

    points = asyncio.run(main())
    assert points.figures().all == MessageCounts()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("checkback-fetch")]


def test_a_start_that_is_cancelled_and_fails_has_nothing_to_end() -> None:
    kafka = SlowToConnect()
    kafka.topics.clear()

    async def main() -> None:
        points = AsyncPushConsumer("fake:9092", "points", later_async, "orders", settings=QUICK, clients=kafka)
        starting = asyncio.ensure_future(points.start())
        await asyncio.to_thread(kafka.connecting.wait, 60)
        starting.cancel()
        await asyncio.sleep(0.01)
        kafka.may.set()
        with pytest.raises(asyncio.CancelledError):
            await starting

    asyncio.run(main())


def test_what_an_asynchronous_listener_waited_for_may_be_cancelled() -> None:
    """And one that is an ordinary function is heard, too: what it has done is done."""
    kafka = FakeKafka()
    kafka.write("orders", b"cancelled", b"well", b"plain")

    def says(message: ReceivedMessage) -> object:
        async def cancelled() -> ConsumeResult:
            task = asyncio.ensure_future(asyncio.sleep(60))
            asyncio.get_running_loop().call_soon(task.cancel)
            await task
            return SUCCESS

        async def well() -> ConsumeResult:
            return SUCCESS

        return {b"cancelled": cancelled, b"well": well}.get(message.value or b"", lambda: SUCCESS)()

    async def main() -> None:
        listener: Any = says
        points = AsyncPushConsumer(
            "fake:9092", "points", listener, "orders", settings=changed(concurrency=1), clients=kafka
        )
        async with points:
            deadline = asyncio.get_running_loop().time() + 60
            while points.figures().all != MessageCounts(done=2, retried=1):
                assert asyncio.get_running_loop().time() < deadline
                await asyncio.sleep(0.02)

    asyncio.run(main())


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"listener": later_async}, "that is for AsyncPushConsumer"),
        ({"listener": partial(later_async)}, "that is for AsyncPushConsumer"),
        ({"listener": None}, "A listener is a function"),
        ({"subscription": "shop.*"}, "no subscription by a pattern"),
        ({"subscription": {"orders": "paid && refunded"}}, "no tag has | or && in it"),
        ({"subscription": {"orders": "paid|refunded"}}, "no tag has | or && in it"),
    ],
)
def test_what_cannot_work_is_refused_before_anything_is_read(wrong: dict[str, Any], told: str) -> None:
    given: dict[str, Any] = {"listener": lambda _: SUCCESS, "subscription": "orders", **wrong}
    with pytest.raises(ConfigurationError, match=re.escape(told)):
        PushConsumer("fake:9092", "points", **given, clients=FakeKafka())


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"start_at": "FIRST"}, "start_at must be StartAt, one of 'last', 'first', 'timestamp', not 'FIRST'"),
        ({"order": 1}, "order must be Order"),
        ({"concurrency": "5"}, "concurrency must be a whole number, not '5'"),
        ({"concurrency": 1.5}, "concurrency must be a whole number"),
        ({"store_interval": True}, "store_interval must be a number"),
        ({"retry_levels": 5}, "retry_levels must be pauses of 0 to 604,800 (s, 7 days)"),
        ({"start_time": "2026-11-22"}, "start_time must be a datetime with a time zone"),
        ({"tag_header": None}, "tag_header must be the name of a header, not None"),
        ({"offset_file": 3}, "offset_file must be a Path, or text, not 3"),
        ({"retry_levels": ["1s"]}, "retry_levels must be pauses of 0 to 604,800 (s, 7 days)"),
        ({"retry_levels": [1, 2]}, "first_retry_level is 3, and there are 2 retry_levels: set both"),
    ],
)
def test_settings_that_make_no_sense_are_refused(wrong: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(told)):
        ConsumerSettings(**wrong)


def test_that_no_partition_comes_is_said(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetching, "_SAY_WAITING_SECONDS", 0.0)
    monkeypatch.setattr(FakeClient, "join", lambda *_: None)
    kafka = FakeKafka()
    with consumer(kafka, Recording()):
        soon(lambda: "No partition for 0 s" in caplog.text)


def test_a_choice_may_be_given_by_its_value() -> None:
    given: Any = {"start_at": "first", "order": "key", "mode": "clustering"}
    settings = ConsumerSettings(**given)
    assert (settings.start_at, settings.order) == (StartAt.FIRST, Order.KEY)


def test_offsets_may_be_set_while_it_runs() -> None:
    kafka = FakeKafka()
    kafka.write("orders", *numbered(10))
    seen = Recording()
    with consumer(kafka, seen) as points:
        soon(lambda: points.figures().all.done == 10)
        answer = points.reset({ORDERS: 4, TopicPartition("others", 0): 1}).result(20)
        assert {place: tuple(one) for place, one in answer.items()} == {ORDERS: (10, 4)}
        soon(lambda: points.figures().all.done == 16)
        assert len(seen.values) == 16
    with pytest.raises(ConsumerError, match="has ended"):
        points.reset({ORDERS: 0}).result(20)
    assert seen.counts[b"003"] == 1
    assert seen.counts[b"004"] == 2
    assert kafka.stored_offsets[ORDERS] == Stored(10)


@pytest.mark.parametrize("offset", [-1, None, "3", 2.0, True, 2**63, 2**70])
def test_what_can_be_no_offset_is_refused_before_anything_happens(offset: Any) -> None:
    kafka = FakeKafka()
    kafka.write("orders", *numbered(10))
    seen = Recording()
    with consumer(kafka, seen) as points:
        soon(lambda: points.figures().all.done == 10)
        with pytest.raises(ConfigurationError, match="a whole number"):
            points.reset({ORDERS: offset})
        for places in (None, [ORDERS], {"orders": 3}, {3: 3}, {("orders", "0"): 3}):
            with pytest.raises(ConfigurationError):
                points.reset(places)  # type: ignore[arg-type]  # that is the test
        assert points.reset({ORDERS: 9}).result(20) == {ORDERS: (10, 9)}
        soon(lambda: len(seen.values) == 11)


def test_offsets_outside_of_what_there_is_set_nothing() -> None:
    kafka = FakeKafka(first={ORDERS: 4}, stored_offsets={ORDERS: Stored(4)})
    kafka.write("orders", *numbered(10))
    seen = Recording()
    with consumer(kafka, seen) as points:
        soon(lambda: kafka.stored_offsets[ORDERS].offset == 10)
        for outside in (3, 11, 5_000):
            with pytest.raises(
                ConfigurationError, match=f"orders-0 has offsets 4 to 10, so nothing was set to {outside}"
            ):
                points.reset({ORDERS: outside}).result(20)
        points.raise_if_dead()
    assert sorted(seen.values) == numbered(10)[4:]


def test_a_reset_that_nobody_waits_for_any_more_ends_nothing() -> None:
    kafka = FakeKafka()
    kafka.write("orders", *numbered(3))
    with consumer(kafka, seen := Recording()) as points:
        soon(lambda: len(seen.values) == 3)
        for _ in range(20):
            points.reset({ORDERS: 0}).cancel()
        points.reset({ORDERS: 3}).result(20)
        points.raise_if_dead()


def test_a_partition_that_begins_anew_while_it_is_paused_is_paused_again() -> None:
    kafka = FakeKafka()
    kafka.write("orders", *numbered(900))
    go_on = threading.Event()

    def says(_: ReceivedMessage, __: int) -> ConsumeResult:
        go_on.wait(60)
        return SUCCESS

    with consumer(kafka, Recording(says), changed(max_messages=150, finish_wait=0.0)) as points:
        client = points._engine._client
        soon(lambda: ORDERS in client.paused)  # type: ignore[attr-defined]  # the fake's
        points.reset({ORDERS: 100}).result(20)
        soon(lambda: ORDERS in client.paused)  # type: ignore[attr-defined]  # likewise
        assert client.positions[ORDERS] == 300  # type: ignore[attr-defined]  # likewise
        go_on.set()


def test_extensions_live_as_long_as_it_does() -> None:
    heard: list[object] = []

    class Control:
        def start(self, consumer: object) -> None:
            heard.append(consumer)

        def stop(self) -> None:
            heard.append("stopped")

    kafka = FakeKafka()
    kafka.write("orders", b"x")
    points = PushConsumer("fake", "points", Recording(), "orders", clients=kafka, extensions=[Control()])
    with points:
        assert heard == [points]
    assert heard == [points, "stopped"]


def test_an_extension_that_does_not_stop_in_order_keeps_neither_the_others_nor_the_consumer() -> None:
    heard: list[str] = []

    class Control:
        def __init__(self, name: str) -> None:
            self.name = name

        def start(self, consumer: object) -> None:
            pass

        def stop(self) -> None:
            heard.append(self.name)
            if self.name == "broken":
                raise ValueError(self.name)

    extensions = [Control("broken"), Control("other")]
    points = PushConsumer("fake", "points", Recording(), "orders", clients=FakeKafka(), extensions=extensions)
    points.start()
    with pytest.raises(ValueError, match="broken"):
        points.close()
    assert heard == ["broken", "other"]
    assert points.wait(0)


def test_what_it_cannot_work_with_is_said_before_anything_is_read() -> None:
    for arguments, said in (
        (("points", print, []), "needs a topic to read"),
        (("", print, "orders"), "needs the name of its group"),
        (("pünkte", print, "orders"), "has topics that are named after it"),
        (("points", None, "orders"), "A listener is a function"),
        (("points", print, {"orders": "a ||"}), "A tag expression is"),
    ):
        with pytest.raises(ConfigurationError, match=said):
            PushConsumer("fake", *arguments, clients=FakeKafka())
    with pytest.raises(ConfigurationError, match=r"no topic cb\.later.*checkback topics create"):
        consumer(FakeKafka(topics={"orders": 1}), Recording()).start()


def test_close_does_not_wait_for_one_that_failed_to_start() -> None:
    points = consumer(FakeKafka(topics={"orders": 1}), Recording())
    with pytest.raises(ConfigurationError, match=r"no topic cb\.later"):
        points.start()
    before = time.monotonic()
    points.close()
    assert time.monotonic() - before < 10  # of 30 s that it lets what is in hand end


def test_it_is_started_once() -> None:
    with consumer(FakeKafka(), Recording()) as points, pytest.raises(ConfigurationError, match="started only once"):
        points.start()


def test_what_fails_and_does_not_pass_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    kafka = FakeKafka()
    with consumer(kafka, Recording()) as points:
        client = points._engine._client

        def broken(seconds: float, most: int) -> None:
            raise ConfigurationError("not allowed")

        monkeypatch.setattr(client, "poll", broken)
        with pytest.raises(CheckbackError, match="not allowed"):
            points.wait(20)
