"""Where a consumer begins, what it stores, and what it goes on from when the offset is gone."""

import logging
import threading
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta

import pytest

from checkback.consumer import (
    ConsumeResult,
    ConsumerSettings,
    ReceivedMessage,
    StartAt,
    TopicPartition,
    WhenOffsetIsGone,
    engine,
)
from checkback.consumer.clients.base import KafkaAwayError, Rebalances
from checkback.consumer.offsets.metadata import Stored, decode
from checkback.exceptions import OffsetGoneError
from tests.consumer.consuming.scene import ORDERS, SUCCESS, changed, consumer, numbered
from tests.consumer.kafka_fake import FakeClient, FakeKafka
from tests.consumer.waiting import Recording, soon


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
        soon(lambda: own <= kafka.topics.keys())
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
        soon(lambda: [one.partition for one in points.figures().partitions] == [TopicPartition("cb.retry.points", 0)])
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


def test_where_it_begins_is_stored_though_no_endings_are() -> None:
    kafka = FakeKafka()
    kafka.write("orders", b"old")
    with consumer(kafka, Recording(), changed(start_at=StartAt.LAST, max_deaths=0)):
        soon(lambda: kafka.stored_offsets.get(ORDERS) == Stored(1))
