"""What a consumer does with what Kafka and its listener say, on a Kafka in memory."""

import asyncio
import logging
import re
import threading
import time
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest

from checkback.consumer import (
    AsyncPushConsumer,
    ConsumeResult,
    ConsumerSettings,
    Listener,
    MessageCounts,
    Order,
    PushConsumer,
    ReceivedMessage,
    StartAt,
    TopicPartition,
    WhenOffsetIsGone,
    engine,
    fetching,
)
from checkback.consumer.clients.base import Connection, KafkaAwayError, Rebalances, RefusedError
from checkback.consumer.offsets.metadata import Endings, Stored, decode
from checkback.exceptions import CheckbackError, ConfigurationError, ConsumerError, OffsetGoneError
from checkback.wire.sent_back import REASON
from tests.consumer.kafka_fake import FakeClient, FakeKafka
from tests.consumer.waiting import Recording, soon

ORDERS = TopicPartition("orders", 0)
LATER, SUCCESS = ConsumeResult.LATER, ConsumeResult.SUCCESS
QUICK = ConsumerSettings(
    concurrency=4, start_at=StartAt.FIRST, store_interval=0.05, retry_here=0.05, suspend=0.05, finish_wait=2.0
)


class Unsayable(Exception):  # noqa: N818  (somebody else's)
    def __str__(self) -> str:
        raise ValueError("a detached object")


async def later_async(_: ReceivedMessage) -> ConsumeResult:
    return LATER


def changed(**settings: object) -> ConsumerSettings:
    return ConsumerSettings(**{**vars(QUICK), **settings})


def consumer(kafka: FakeKafka, listener: Listener, settings: ConsumerSettings = QUICK) -> PushConsumer:
    return PushConsumer("fake:9092", "points", listener, "orders", settings=settings, transport=kafka)


def numbered(count: int) -> list[bytes]:
    return [b"%03d" % number for number in range(count)]


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


@pytest.mark.parametrize(
    ("settings", "begins"),
    [
        (changed(start_at=StartAt.LAST), 10),
        (changed(start_at=StartAt.FIRST), 2),
        (changed(start_at=StartAt.TIMESTAMP), 10),
        (changed(start_at=StartAt.TIMESTAMP, start_time=datetime.fromtimestamp(1.005, UTC)), 5),
    ],
)
def test_where_a_group_begins_that_has_stored_nothing(
    settings: ConsumerSettings, begins: int, caplog: pytest.LogCaptureFixture
) -> None:
    kafka = FakeKafka(first={ORDERS: 2})
    kafka.write("orders", *numbered(10))
    caplog.set_level(logging.INFO)
    seen = Recording()
    with consumer(kafka, seen, settings):
        soon(lambda: ORDERS in kafka.stored_offsets)
        assert kafka.stores[0][ORDERS].offset == begins
        kafka.write("orders", b"new")
        soon(lambda: b"new" in seen.values)
    assert sorted(seen.values) == [*numbered(10)[begins:], b"new"]
    assert f"orders-0: the group has no stored offset; it begins at {begins} of 2 to 10" in caplog.text


@pytest.mark.parametrize("start_at", StartAt)
def test_a_stored_offset_is_where_it_begins_whatever_the_setting(
    start_at: StartAt, caplog: pytest.LogCaptureFixture
) -> None:
    kafka = FakeKafka(stored_offsets={ORDERS: Stored(4)})
    kafka.write("orders", *numbered(10))
    caplog.set_level(logging.INFO)
    seen = Recording()
    with consumer(kafka, seen, changed(start_at=start_at)):
        soon(lambda: len(seen.values) == 6)
    assert sorted(seen.values) == numbered(10)[4:]
    assert "orders-0: the group has no stored offset" not in caplog.text


def test_topics_of_the_group_that_are_deleted_while_it_runs_are_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing else tells of a missing retry topic: what the job cannot deliver there it holds, and parks in the end."""
    monkeypatch.setattr(engine, "_MAKE_TOPICS_SECONDS", 0.05)
    kafka = FakeKafka()
    own = {"cb.retry.points", "cb.dlq.points"}
    with consumer(kafka, Recording()):
        assert own <= kafka.topics.keys()
        for name in own:
            del kafka.topics[name]
        soon(lambda: own <= kafka.topics.keys())


def test_half_an_hour_ago_is_where_a_time_begins_without_one() -> None:
    now = datetime.now(UTC)
    assert ConsumerSettings().start_ms(now) == round((now - timedelta(minutes=30)).timestamp() * 1000)


def test_what_lies_in_the_retry_topic_is_read_from_the_first_whatever_the_setting() -> None:
    kafka = FakeKafka()
    kafka.write("cb.retry.points", b"waits since before the group had stored anything")
    seen = Recording()
    with consumer(kafka, seen, changed(start_at=StartAt.LAST)):
        soon(lambda: len(seen.values) == 1)


def test_a_partition_that_is_added_later_begins_at_its_first_message() -> None:
    kafka = FakeKafka()
    kafka.write("orders", b"old")
    seen = Recording()
    with consumer(kafka, seen, changed(start_at=StartAt.LAST)):
        soon(lambda: ORDERS in kafka.stored_offsets)
        kafka.write("orders", b"new", partition=1)
        kafka.rebalances.put(lambda group: group.assigned([TopicPartition("orders", 1)]))
        soon(lambda: seen.values == [b"new"])


def test_a_partition_that_was_added_while_nobody_ran_begins_at_its_first_message(
    caplog: pytest.LogCaptureFixture,
) -> None:
    kafka = FakeKafka(stored_offsets={ORDERS: Stored(1)})
    kafka.write("orders", b"old")
    kafka.write("orders", b"new", partition=1)
    caplog.set_level(logging.INFO)
    seen = Recording()
    with consumer(kafka, seen, changed(start_at=StartAt.LAST)):
        soon(lambda: seen.values)
    assert seen.values == [b"new"]
    assert "begins at 0 of 0 to 1 (it was added to a topic that the group reads)" in caplog.text


def test_what_others_store_who_begin_the_group_together_with_this_one_is_no_sign_of_added_partitions() -> None:
    kafka = FakeKafka()
    kafka.write("orders", b"old")
    kafka.write("orders", b"old", partition=1)

    def assigned_late(group: Rebalances) -> None:
        kafka.stored_offsets[ORDERS] = Stored(1)
        group.assigned([TopicPartition("orders", 1)])

    class Apart(FakeClient):
        def join(self, topics: Sequence[str], rebalances: Rebalances) -> None:
            self.joined = rebalances

    kafka.consumer = lambda _: Apart(kafka)  # type: ignore[assignment, method-assign]  # one that is given its share later
    kafka.rebalances.put(assigned_late)
    seen = Recording()
    with consumer(kafka, seen, changed(start_at=StartAt.LAST)):
        soon(lambda: TopicPartition("orders", 1) in kafka.stored_offsets)
        kafka.write("orders", b"new", partition=1)
        soon(lambda: kafka.stored_offsets[TopicPartition("orders", 1)].offset == 2)
    assert seen.values == [b"new"]


def test_a_kafka_that_does_not_say_at_once_what_is_stored_is_asked_again() -> None:
    kafka = FakeKafka(stored_offsets={ORDERS: Stored(1)})
    kafka.write("orders", b"old", b"new")
    answers = iter([KafkaAwayError("it makes the topic of the offsets"), None])

    class Slow(FakeClient):
        def stored(self, places: Collection[TopicPartition]) -> dict[TopicPartition, Stored]:
            if error := next(answers, None):
                raise error
            return super().stored(places)

    kafka.consumer = lambda _: Slow(kafka)  # type: ignore[assignment, method-assign]  # one that answers late
    seen = Recording()
    with consumer(kafka, seen):
        soon(lambda: seen.values == [b"new"])


def test_stored_periodically_with_what_is_done_behind_a_message_that_takes_its_time() -> None:
    kafka = FakeKafka()
    kafka.write("orders", *numbered(6))
    go_on = threading.Event()

    def says(message: ReceivedMessage, _: int) -> ConsumeResult:
        if message.offset == 2:
            go_on.wait(20)
        return SUCCESS

    with consumer(kafka, Recording(says)):
        soon(lambda: decode(kafka.stored_offsets.get(ORDERS, Stored(0))).done == (range(3, 6),))
        assert kafka.stored_offsets[ORDERS].offset == 2
        go_on.set()


def test_stored_with_the_fetch_loop_when_nothing_is_under_way_any_more() -> None:
    kafka = FakeKafka()
    kafka.write("orders", *numbered(3))
    with consumer(kafka, Recording(), changed(store_interval=1_000.0)):
        soon(lambda: kafka.stored_offsets.get(ORDERS, Stored(0)).offset == 3)


def test_stored_on_close_after_what_is_in_hand_has_ended() -> None:
    kafka = FakeKafka()
    kafka.write("orders", b"slow")
    begun = threading.Event()

    def says(message: ReceivedMessage, _: int) -> ConsumeResult:
        begun.set()
        closing.wait(20)
        return SUCCESS

    closing = threading.Event()
    points = consumer(kafka, Recording(says), changed(store_interval=1_000.0)).start()
    begun.wait(20)
    assert kafka.stored_offsets[ORDERS].offset == 0
    threading.Timer(0.1, closing.set).start()
    points.close()
    assert kafka.stored_offsets[ORDERS] == Stored(1)


def test_stored_on_revocation_and_a_lost_partition_stores_nothing() -> None:
    kafka = FakeKafka()
    kafka.write("orders", *numbered(3))
    kafka.write("orders", *numbered(3), partition=1)
    seen = Recording()
    revoked: list[Mapping[TopicPartition, Stored]] = []

    def revoke_one_and_lose_the_other(group: Rebalances) -> None:
        revoked.append(group.leaving([ORDERS]))
        group.left([ORDERS])
        kafka.stores.clear()
        group.lost([TopicPartition("orders", 1)])

    with consumer(kafka, seen, changed(store_interval=1_000.0)) as points:
        soon(lambda: len(seen.values) == 6)
        kafka.rebalances.put(revoke_one_and_lose_the_other)
        soon(lambda: [one.place for one in points.figures().partitions] == [TopicPartition("cb.retry.points", 0)])
    assert revoked == [{ORDERS: Stored(3)}]
    assert not any(TopicPartition("orders", 1) in stores for stores in kafka.stores)


@pytest.mark.parametrize("somebody_else", [False, True])
def test_a_partition_that_was_lost_and_comes_back_unread_is_not_done_again(somebody_else: bool) -> None:  # noqa: FBT001  (a parameter)
    kafka = FakeKafka()
    kafka.write("orders", *numbered(5))
    seen = Recording()

    def lose_and_come_back(group: Rebalances) -> None:
        group.lost([ORDERS])
        if somebody_else:
            kafka.stored_offsets[ORDERS] = Stored(2)
        group.assigned([ORDERS])

    with consumer(kafka, seen, changed(store_interval=1_000.0)) as points:
        soon(lambda: len(seen.values) == 5)
        kafka.stored_offsets[ORDERS] = points._engine._partitions.works[ORDERS].stored = Stored(0, "as it was")
        kafka.rebalances.put(lose_and_come_back)
        soon(kafka.rebalances.empty)
        kafka.write("orders", b"new")
        soon(lambda: b"new" in seen.values)
        soon(lambda: kafka.stored_offsets[ORDERS].offset == 6)
    assert sorted(seen.values) == sorted([*numbered(5), b"new", *(numbered(5)[2:] if somebody_else else [])])


def test_an_offset_that_is_gone_follows_the_setting(caplog: pytest.LogCaptureFixture) -> None:
    for setting, begins in ((WhenOffsetIsGone.EARLIEST, 5), (WhenOffsetIsGone.LATEST, 10)):
        kafka = FakeKafka(first={ORDERS: 5}, stored_offsets={ORDERS: Stored(2)})
        kafka.write("orders", *numbered(10))
        seen = Recording()
        with consumer(kafka, seen, changed(when_offset_is_gone=setting)):
            soon(lambda: kafka.stored_offsets[ORDERS].offset == 10)  # noqa: B023  (called at once)
        assert sorted(seen.values) == numbered(10)[begins:]
        assert "offset 2 is gone: retention has deleted 3 offsets unread (it has 5 to 10" in caplog.text
        assert f"The group goes on at {begins}." in caplog.text


def test_an_offset_behind_the_end_follows_the_setting_too(caplog: pytest.LogCaptureFixture) -> None:
    kafka = FakeKafka(stored_offsets={ORDERS: Stored(20)})
    kafka.write("orders", *numbered(3))
    with consumer(kafka, seen := Recording()):
        soon(lambda: len(seen.values) == 3)
    assert "there is no offset 20 yet: was the topic made again?" in caplog.text


def test_a_consumer_that_is_to_stop_there_says_why() -> None:
    kafka = FakeKafka(first={ORDERS: 5}, stored_offsets={ORDERS: Stored(2)})
    kafka.write("orders", *numbered(10))
    stopping = changed(when_offset_is_gone=WhenOffsetIsGone.STOP)
    said = pytest.raises(OffsetGoneError, match=r"offset 2 is gone.*checkback offsets reset")
    with consumer(kafka, Recording(), stopping) as points, said:
        points.wait(20)
    assert kafka.stored_offsets[ORDERS].offset == 2


@pytest.mark.parametrize("setting", [WhenOffsetIsGone.LATEST, WhenOffsetIsGone.STOP])
def test_a_retry_topic_that_was_made_again_is_read_from_its_first_message(setting: WhenOffsetIsGone) -> None:
    """Whatever the setting says of the topics that the group wants: what lies there was sent back by itself."""
    retry = TopicPartition("cb.retry.points", 0)
    kafka = FakeKafka(stored_offsets={retry: Stored(20)})
    kafka.write(retry.topic, *numbered(3))
    with consumer(kafka, seen := Recording(), changed(when_offset_is_gone=setting)):
        soon(lambda: len(seen.values) == 3)


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


class SlowToConnect(FakeKafka):
    """A client of it is made only when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.connecting, self.may = threading.Event(), threading.Event()

    def consumer(self, connection: Connection) -> FakeClient:
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
        points = AsyncPushConsumer("fake:9092", "points", seen, "orders", settings=QUICK, transport=kafka)
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
        points = AsyncPushConsumer("fake:9092", "points", later_async, "orders", settings=QUICK, transport=kafka)
        starting = asyncio.ensure_future(points.start())
        await asyncio.to_thread(kafka.connecting.wait, 60)
        starting.cancel()
        await asyncio.sleep(0.01)
        kafka.may.set()
        with pytest.raises(asyncio.CancelledError):
            await starting

    asyncio.run(main())


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
            "fake:9092", "points", listener, "orders", settings=changed(concurrency=1), transport=kafka
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
        PushConsumer("fake:9092", "points", **given, transport=FakeKafka())


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


def test_one_retry_level_is_every_pause() -> None:
    assert [ConsumerSettings(retry_levels=[1]).retry_delay(tries) for tries in (0, 5)] == [1, 1]


def test_a_choice_may_be_given_by_its_value() -> None:
    given: Any = {"start_at": "first", "order": "key", "mode": "clustering"}
    settings = ConsumerSettings(**given)
    assert (settings.start_at, settings.order) == (StartAt.FIRST, Order.KEY)


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
    kafka = FakeKafka(failures=[RefusedError(0, "too large")])
    kafka.write("orders", b"bad")
    with consumer(kafka, Recording(lambda *_: LATER)) as points:
        soon(lambda: points.figures().all == MessageCounts(dead=1))
    (record,) = kafka.written
    assert record.topic == "cb.dlq.points"
    assert "cb.later does not take it (too large)" in str(dict(record.headers)[REASON])


def test_what_even_the_dead_letters_do_not_take_waits_here(caplog: pytest.LogCaptureFixture) -> None:
    kafka = FakeKafka(failures=[RefusedError(0, "not even that")])
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
    with PushConsumer("fake", "points", seen, wanted, settings=QUICK, transport=kafka) as points:
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
    with PushConsumer("fake:9092", "points", listener, "orders", settings=settings, transport=kafka):
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
    with PushConsumer("fake", "points", listener, "orders", settings=settings, transport=kafka) as points:
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
        async with AsyncPushConsumer("fake", "points", listener, "orders", settings=settings, transport=kafka) as it:
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
        points = AsyncPushConsumer("fake", "points", listener, "orders", settings=QUICK, transport=kafka)
        return await points.start()

    points = asyncio.run(run())
    assert points._engine.wait(20)
    with pytest.raises(ConsumerError, match="event loop was closed"):
        points.raise_if_dead()


def test_offsets_may_be_set_while_it_runs() -> None:
    kafka = FakeKafka()
    kafka.write("orders", *numbered(10))
    seen = Recording()
    with consumer(kafka, seen) as points:
        soon(lambda: len(seen.values) == 10)
        answer = points.reset({ORDERS: 4, TopicPartition("others", 0): 1}).result(20)
        assert {place: tuple(one) for place, one in answer.items()} == {ORDERS: (10, 4)}
        soon(lambda: len(seen.values) == 16)
        assert points.figures().all.done == 16
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
        soon(lambda: len(seen.values) == 10)
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


def test_where_it_begins_is_stored_though_no_endings_are() -> None:
    kafka = FakeKafka()
    kafka.write("orders", b"old")
    with consumer(kafka, Recording(), changed(start_at=StartAt.LAST, max_deaths=0)):
        soon(lambda: kafka.stored_offsets.get(ORDERS) == Stored(1))


def test_extensions_live_as_long_as_it_does() -> None:
    heard: list[object] = []

    class Control:
        def start(self, consumer: object) -> None:
            heard.append(consumer)

        def stop(self) -> None:
            heard.append("stopped")

    kafka = FakeKafka()
    kafka.write("orders", b"x")
    points = PushConsumer("fake", "points", Recording(), "orders", transport=kafka, extensions=[Control()])
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
    points = PushConsumer("fake", "points", Recording(), "orders", transport=FakeKafka(), extensions=extensions)
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
            PushConsumer("fake", *arguments, transport=FakeKafka())
    with pytest.raises(ConfigurationError, match="no transport 'carrier-pigeon'"):
        PushConsumer("fake", "points", Recording(), "orders", transport="carrier-pigeon").start()
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
