"""What fails is sent back, tried here, or a dead letter; none of it stops a partition."""

import asyncio
import threading
import time

import pytest

from checkback.consumer import (
    AsyncPushConsumer,
    ConsumeResult,
    ConsumerSettings,
    MessageCounts,
    Order,
    ReceivedMessage,
    TopicPartition,
)
from checkback.consumer.clients.base import KafkaAwayError, RecordRefusedError
from checkback.consumer.offsets.metadata import Endings, Stored, decode
from checkback.wire.sent_back import REASON
from tests.consumer.consuming.scene import LATER, ORDERS, SUCCESS, changed, consumer, numbered
from tests.consumer.kafka_fake import FakeKafka
from tests.consumer.waiting import Recording, soon


class Unsayable(Exception):  # noqa: N818  (somebody else's)
    def __str__(self) -> str:
        raise ValueError("a detached object")


def test_later_is_sent_back_with_what_travels_with_it() -> None:
    kafka = FakeKafka()
    kafka.write("orders", b"good", b"bad", b"ugly", key=b"k")

    def says(message: ReceivedMessage, _: int) -> ConsumeResult:
        if message.value == b"ugly":
            raise ValueError("no")
        return LATER if message.value == b"bad" else SUCCESS

    with consumer(kafka, Recording(says)) as points:
        soon(lambda: len(kafka.written) == 2)
        soon(lambda: points.figures().all == MessageCounts(done=1, retried=2))
    for record in kafka.written:
        headers = dict(record.headers)
        assert (record.topic, record.key) == ("cb.later", b"k")
        assert headers["cb-topic"] == b"cb.retry.points"
        assert headers["checkback-first-id"] == record.value
    assert kafka.stored_offsets[ORDERS] == Stored(3)


def test_any_other_answer_is_later_and_is_said(caplog: pytest.LogCaptureFixture) -> None:
    kafka = FakeKafka()
    kafka.write("orders", b"x")
    with consumer(kafka, lambda _: None):  # type: ignore[arg-type, return-value]  # the mistake in question
        soon(lambda: kafka.written)
    assert "it returned None; return ConsumeResult.SUCCESS when the message is done" in caplog.text


@pytest.mark.parametrize("raised", [SystemExit(1), asyncio.CancelledError(), KeyboardInterrupt(), Unsayable()])
def test_whatever_a_listener_raises_is_later_and_its_thread_works_on(raised: BaseException) -> None:
    kafka = FakeKafka()
    kafka.write("orders", b"bad", b"well")

    def says(message: ReceivedMessage, _: int) -> ConsumeResult:
        if message.value == b"bad":
            raise raised
        return SUCCESS

    with consumer(kafka, Recording(says), changed(concurrency=1, max_reconsume_times=0)) as points:
        soon(lambda: points.figures().all == MessageCounts(done=1, dead=1))
    said = dict(kafka.written[0].headers)[REASON] or b""
    assert said.startswith(f"tried 1 times in vain; at last {type(raised).__name__}: ".encode())


class EndsTheTask(BaseException):
    """As those of gevent or pytest."""


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_whatever_a_coroutine_raises_the_messages_behind_it_are_handled() -> None:
    kafka = FakeKafka()
    kafka.write("orders", b"bad", *numbered(4))

    async def listener(message: ReceivedMessage) -> ConsumeResult:
        if message.value == b"bad":
            raise EndsTheTask
        return SUCCESS

    async def main() -> None:
        settings = changed(concurrency=1, max_reconsume_times=0)
        async with AsyncPushConsumer(
            "fake:9092", "points", listener, "orders", settings=settings, clients=kafka
        ) as points:
            await asyncio.to_thread(soon, lambda: points.figures().all == MessageCounts(done=4, dead=1))

    asyncio.run(main())


def test_one_retry_level_is_every_pause() -> None:
    assert [ConsumerSettings(retry_levels=[1]).retry_delay(tries) for tries in (0, 5)] == [1, 1]


def test_when_sending_back_fails_the_window_stays_and_it_is_tried_here_again() -> None:
    kafka = FakeKafka(failures=[KafkaAwayError("away"), KafkaAwayError("away")])
    kafka.write("orders", b"bad", b"good")
    seen = Recording(lambda message, before: LATER if message.value == b"bad" and before < 2 else SUCCESS)
    with consumer(kafka, seen):
        soon(lambda: kafka.stored_offsets.get(ORDERS, Stored(0)).offset == 2)
    assert seen.counts == {b"bad": 3, b"good": 1}
    assert {message.tries for message in seen.messages} == {0}
    assert kafka.written == []


def test_a_transaction_whose_end_is_not_known_is_looked_up() -> None:
    kafka = FakeKafka(failures=[KafkaAwayError("no answer")], committed_all_the_same=True)
    kafka.write("orders", b"bad", b"good")
    seen = Recording(lambda message, _: LATER if message.value == b"bad" else SUCCESS)
    with consumer(kafka, seen) as points:
        soon(lambda: points.figures().all == MessageCounts(done=1, retried=1))
    assert seen.counts == {b"bad": 1, b"good": 1}
    assert len(kafka.written) == 1
    assert kafka.stored_offsets[ORDERS] == Stored(2)


def test_what_cannot_be_tried_later_is_a_dead_letter() -> None:
    kafka = FakeKafka(failures=[RecordRefusedError(0, "too large")])
    kafka.write("orders", b"bad")
    with consumer(kafka, Recording(lambda *_: LATER)) as points:
        soon(lambda: points.figures().all == MessageCounts(dead=1))
    (record,) = kafka.written
    assert record.topic == "cb.dlq.points"
    assert "cb.later does not take it (too large)" in str(dict(record.headers)[REASON])


def test_what_even_the_dead_letters_do_not_take_waits_here(caplog: pytest.LogCaptureFixture) -> None:
    kafka = FakeKafka(failures=[RecordRefusedError(0, "not even that")])
    kafka.write("orders", b"bad")
    with consumer(kafka, Recording(lambda *_: LATER), changed(max_reconsume_times=0)) as points:
        soon(lambda: points.figures().all == MessageCounts(dead=1))
    assert "cb.dlq.points does not take a dead letter (not even that)" in caplog.text
    assert len(kafka.written) == 1


def test_levels_come_in_their_order_sixteen_times_and_then_it_is_dead() -> None:
    """A job in one line, which waits for nothing: what is in ``cb.later`` is written to the retry topic."""
    kafka = FakeKafka()
    kafka.write("orders", b"bad")
    levels = tuple(100.0 * number for number in range(1, 19))
    waits: list[int] = []
    with consumer(kafka, seen := Recording(lambda *_: LATER), changed(retry_levels=levels)) as points:
        for moved in range(16):
            soon(lambda: len(kafka.written) > moved)  # noqa: B023  (called at once)
            record = kafka.written[moved]
            headers = [pair for pair in record.headers if not pair[0].startswith("cb-")]
            wait_ms = int(dict(record.headers)["cb-deliver-at"] or 0) - time.time() * 1000
            waits.append(round(wait_ms / 100_000))
            log = kafka.logs.setdefault(TopicPartition("cb.retry.points", 0), [])
            log.append(ReceivedMessage("cb.retry.points", 0, len(log), record.key, record.value, headers))
        soon(lambda: points.figures().all.dead == 1)
    assert waits == list(range(3, 19))
    assert [message.tries for message in seen.messages] == list(range(17))
    assert {(message.topic, message.partition, message.offset, message.id) for message in seen.messages} == {
        ("orders", 0, 0, "bad")
    }
    dead = kafka.written[-1]
    assert dead.topic == "cb.dlq.points"
    assert dict(dead.headers)[REASON] == b"tried 17 times in vain"
    assert dict(dead.headers)["checkback-tries"] == b"17"
    assert len(kafka.written) == 17


def test_the_first_retry_takes_the_third_level() -> None:
    settings = ConsumerSettings()
    waits = [settings.retry_delay(tries) for tries in range(17)]
    minutes = [60.0 * number for number in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 20, 30, 60, 120)]
    assert waits == [10.0, 30.0, *minutes, 7_200.0]


def test_one_poisoned_message_does_not_stop_a_partition() -> None:
    kafka = FakeKafka()
    kafka.write("orders", b"bad", *numbered(300))
    seen = Recording(lambda message, _: LATER if message.value == b"bad" else SUCCESS)
    with consumer(kafka, seen, changed(max_span=20, max_messages=10)):
        soon(lambda: kafka.stored_offsets.get(ORDERS, Stored(0)).offset == 301)
    assert len(kafka.written) == 1


def test_before_a_message_is_begun_alone_it_is_stored_that_the_one_before_is_done() -> None:
    """Of another partition, too: else a death at the second one would count as one of the first as well."""
    places = [TopicPartition("orders", 0), TopicPartition("orders", 1)]
    kafka = FakeKafka(stored_offsets={place: Stored(0, "cb1;0;1;2;0;;") for place in places})
    for place in places:
        kafka.write("orders", b"one", partition=place.partition)
    begun: list[dict[TopicPartition, tuple[int, int]]] = []

    def says(_: ReceivedMessage, __: int) -> ConsumeResult:
        found = kafka.stored_offsets
        begun.append({place: (found[place].offset, decode(found[place]).endings.alone) for place in places})
        return SUCCESS

    with consumer(kafka, Recording(says), changed(store_interval=600)):
        soon(lambda: len(begun) == 2)
    first, second = sorted(places, key=lambda place: begun[0][place][1], reverse=True)
    assert begun == [{first: (0, 1), second: (0, 0)}, {first: (1, 0), second: (0, 1)}]


def test_nobody_waits_for_a_partition_that_is_well_again() -> None:
    """Its first message was begun alone, and has not killed; now its hands are full."""
    well, ill = TopicPartition("orders", 0), TopicPartition("orders", 1)
    kafka = FakeKafka(stored_offsets={well: Stored(0, "cb1;0;1;2;1;;"), ill: Stored(0, "cb1;0;1;2;0;;")})
    kafka.write("orders", *numbered(2), partition=well.partition)
    kafka.write("orders", *numbered(10), partition=ill.partition)
    go_on, seen = threading.Event(), list[int]()

    def says(message: ReceivedMessage, _: int) -> ConsumeResult:
        seen.append(message.partition)
        if message.partition == well.partition and message.offset > 0:
            go_on.wait(60)
        return SUCCESS

    with consumer(kafka, Recording(says), changed(store_interval=600)):
        soon(lambda: seen.count(ill.partition) == 10)
        go_on.set()


def test_nobody_waits_for_a_message_that_was_begun_alone_and_rests() -> None:
    """It has failed, and with an order it is tried again here; it has not killed, and does not count as if it had."""
    resting, other = TopicPartition("orders", 0), TopicPartition("orders", 1)
    kafka = FakeKafka(stored_offsets={place: Stored(0, "cb1;0;1;2;0;;") for place in (resting, other)})
    for place in (resting, other):
        kafka.write("orders", *numbered(10), partition=place.partition)

    def says(message: ReceivedMessage, _: int) -> ConsumeResult:
        return LATER if message.partition == resting.partition else SUCCESS

    seen = Recording(says)
    with consumer(kafka, seen, changed(order=Order.KEY, suspend=600, store_interval=0.05)):
        soon(lambda: kafka.stored_offsets[other].offset == 10)
        soon(lambda: decode(kafka.stored_offsets[resting]).endings == Endings(running=True, without_a_word=3))
    assert [message.offset for message in seen.messages if message.partition == resting.partition] == [0]


def test_what_has_rested_is_begun_alone_again() -> None:
    kafka = FakeKafka(stored_offsets={ORDERS: Stored(0, "cb1;0;1;2;0;;")})
    for number in range(70):
        kafka.write("orders", b"%03d" % number, key=b"a" if number % 2 else b"b")
    begun: list[tuple[int, int, int]] = []

    def says(message: ReceivedMessage, before: int) -> ConsumeResult:
        found = kafka.stored_offsets[ORDERS]
        begun.append((message.offset, found.offset, decode(found).endings.alone))
        return LATER if message.offset == 1 and before < 3 else SUCCESS

    with consumer(kafka, Recording(says), changed(order=Order.KEY, suspend=0.2, store_interval=0.05)):
        soon(lambda: kafka.stored_offsets[ORDERS].offset == 70)
    assert begun[:6] == [(0, 0, 1), (1, 1, 1), (1, 1, 1), (1, 1, 1), (1, 1, 1), (2, 2, 1)]
    assert [offset for offset, *_ in begun if offset % 2] == [1, 1, 1, *range(1, 70, 2)]
