"""Where a group goes on that has run before, and whose offsets Kafka has forgotten."""

import logging
from collections.abc import Callable, Sequence
from threading import Event

import pytest

from checkback.consumer import (
    ConsumeResult,
    ConsumerSettings,
    PushConsumer,
    StartAt,
    TopicPartition,
    WhenOffsetIsGone,
    engine,
)
from checkback.consumer.clients.base import NewTopic, Rebalances
from checkback.consumer.offsets.metadata import LastingFacts, Stored, decode, encode, has_begun, letters
from checkback.consumer.offsets.starting import begun_before, go_on
from checkback.exceptions import OffsetGoneError
from checkback.kafka.bounds import Bounds
from tests.consumer.kafka_fake import FakeClient, FakeKafka
from tests.consumer.waiting import Recording, soon

ORDERS, RETURNS, RETRY = TopicPartition("orders", 0), TopicPartition("returns", 0), TopicPartition("cb.retry.points", 0)


def points(
    kafka: FakeKafka,
    seen: Recording,
    *topics: str,
    when_offset_is_gone: WhenOffsetIsGone = WhenOffsetIsGone.EARLIEST,
) -> PushConsumer:
    settings = ConsumerSettings(
        concurrency=1, start_at=StartAt.LAST, store_interval=0.05, when_offset_is_gone=when_offset_is_gone
    )
    return PushConsumer("fake:9092", "points", seen, topics or ["orders"], settings=settings, clients=kafka)


def that_has_run() -> FakeKafka:
    """One message of the topic was there before the group, one is handled, and two nobody has read."""
    kafka = FakeKafka()
    kafka.write("orders", b"before")
    with points(kafka, seen := Recording()):
        soon(lambda: kafka.topics.keys() >= {"cb.retry.points", "cb.dlq.points"})
        kafka.write("orders", b"handled")
        soon(lambda: kafka.stored_offsets[ORDERS].offset == 2)
    assert seen.values == [b"handled"]
    kafka.write("orders", b"unread", b"unread, too")
    return kafka


def expire(kafka: FakeKafka) -> None:
    kafka.stored_offsets.clear()


def make_again(kafka: FakeKafka) -> None:
    """Kafka forgets the topic's offsets, and no others."""
    del kafka.stored_offsets[ORDERS]
    kafka.logs.clear()
    kafka.write("orders", b"unread", b"unread, too")


@pytest.mark.parametrize("forget", [expire, make_again])
def test_a_group_that_has_run_passes_over_nothing_when_its_offsets_are_gone(
    forget: Callable[[FakeKafka], None], caplog: pytest.LogCaptureFixture
) -> None:
    kafka = that_has_run()
    forget(kafka)
    there = [message.value for message in kafka.logs[ORDERS]]
    with points(kafka, seen := Recording()):
        soon(lambda: len(seen.values) == len(there))
    assert seen.values == there
    said = [one for one in caplog.records if one.levelno >= logging.WARNING and "orders-0" in one.getMessage()]
    assert "its stored offset is gone" in said[0].getMessage()
    assert "when_offset_is_gone is earliest). The group goes on at 0." in said[0].getMessage()


def test_its_setting_says_where_such_a_group_goes_on() -> None:
    kafka = that_has_run()
    expire(kafka)
    with points(kafka, seen := Recording(), when_offset_is_gone=WhenOffsetIsGone.STOP) as stopping:
        with pytest.raises(OffsetGoneError, match="checkback offsets reset"):
            stopping.wait(60)
        assert ORDERS not in kafka.stored_offsets
    with points(kafka, seen, when_offset_is_gone=WhenOffsetIsGone.LATEST):
        soon(lambda: ORDERS in kafka.stored_offsets)
        kafka.write("orders", b"new")
        soon(lambda: seen.values == [b"new"])


def test_a_topic_that_such_a_group_has_not_read_before_begins_where_it_says() -> None:
    kafka = that_has_run()
    kafka.write("returns", b"before")
    with points(kafka, seen := Recording(), "orders", "returns"):
        soon(lambda: RETURNS in kafka.stored_offsets)
        kafka.write("returns", b"new")
        soon(lambda: len(seen.values) == 3)
    assert sorted(seen.values) == [b"new", b"unread", b"unread, too"]


@pytest.mark.parametrize(("ids", "handled"), [({"cb.retry.points": "first"}, [b"new"]), ({}, [b"before", b"new"])])
def test_a_group_that_has_found_none_of_its_topics_has_begun_none(ids: dict[str, str], handled: list[bytes]) -> None:
    """A wrong name, put right: what lay in the topic is not for it. Old brokers do not say enough to know that."""
    kafka = FakeKafka(topics={"cb.later": 1, "cb.retry.points": 1}, topic_ids=ids)
    with points(kafka, Recording(), "no.such.topic"):
        soon(lambda: RETRY in kafka.stored_offsets and "cb.dlq.points" in kafka.topics)
    kafka.write("orders", b"before")
    with points(kafka, seen := Recording()):
        soon(lambda: ORDERS in kafka.stored_offsets)
        kafka.write("orders", b"new")
        soon(lambda: seen.values == handled)


def test_a_topic_that_came_later_is_noted_by_members_that_have_none_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "_MAKE_TOPICS_SECONDS", 0.2)
    kafka = FakeKafka(topics={"cb.later": 1, "cb.retry.points": 1}, topic_ids={"cb.retry.points": "first"})
    with points(kafka, Recording(), "orders"):
        soon(lambda: RETRY in kafka.stored_offsets)
        assert has_begun(kafka.stored_offsets[RETRY], "orders") is False
        kafka.topic_ids["orders"] = "second"  # another member has its partitions
        soon(lambda: has_begun(kafka.stored_offsets[RETRY], "orders"))


def test_a_new_group_whose_other_members_have_made_its_retry_topic_begins_where_it_says() -> None:
    kafka = FakeKafka(topics={"cb.later": 1, "cb.retry.points": 1})
    kafka.write("orders", b"before")
    with points(kafka, seen := Recording()):
        soon(lambda: ORDERS in kafka.stored_offsets)
        kafka.write("orders", b"new")
        soon(lambda: seen.values)
    assert seen.values == [b"new"]


def test_the_topic_of_dead_letters_is_made_when_offsets_are_stored() -> None:
    """Where it is there and no offsets are, these were lost: that holds only in this order."""
    kafka = FakeKafka()
    kafka.write("orders", b"before")
    stored: list[bool] = []

    class Watched(FakeClient):
        def make_topics(self, topics: Sequence[NewTopic]) -> list[str]:
            stored.extend(ORDERS in kafka.stored_offsets for topic in topics if topic.name == "cb.dlq.points")
            return super().make_topics(topics)

    kafka.consumer = lambda _: Watched(kafka)  # type: ignore[assignment, method-assign]  # one that tells
    with points(kafka, Recording()):
        soon(lambda: "cb.dlq.points" in kafka.topics)
    assert stored == [True]


def test_what_this_consumer_had_begun_is_not_new_when_its_offset_is_gone_while_it_runs(
    caplog: pytest.LogCaptureFixture,
) -> None:
    kafka = FakeKafka()
    kafka.write("orders", b"before")

    def make_again_meanwhile(group: Rebalances) -> None:
        group.lost([ORDERS])
        make_again(kafka)
        group.assigned([ORDERS])

    with points(kafka, seen := Recording()):
        soon(lambda: ORDERS in kafka.stored_offsets)
        kafka.rebalances.put(make_again_meanwhile)
        soon(lambda: len(seen.values) == 2)
    assert seen.values == [b"unread", b"unread, too"]
    assert "orders-0: the group has read it before, and its stored offset is gone" in caplog.text


def test_what_lies_before_the_position_in_a_topic_that_was_made_again_is_read(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Clients read on where they were, if the new topic has got so far: nothing else tells."""
    monkeypatch.setattr(engine, "_MAKE_TOPICS_SECONDS", 0.2)
    kafka = FakeKafka(topics={"cb.later": 1, "orders": 1}, topic_ids={"orders": "first"})
    with points(kafka, seen := Recording()):
        soon(lambda: ORDERS in kafka.stored_offsets)
        kafka.write("orders", b"before", b"before, too")
        soon(lambda: kafka.stored_offsets[ORDERS].offset == 2)
        kafka.logs[ORDERS].clear()
        kafka.topic_ids["orders"] = "second"
        kafka.write("orders", b"1", b"2", b"3")
        soon(lambda: set(seen.values) >= {b"1", b"2", b"3"})
    assert "orders-0: what was read before offset 3 is not there now" in caplog.text


def test_a_client_that_remembers_the_old_topic_is_made_to_forget_it_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "_MAKE_TOPICS_SECONDS", 0.2)
    kafka = FakeKafka(topics={"cb.later": 1, "orders": 1}, topic_ids={"orders": "first"})
    with points(kafka, seen := Recording()):
        soon(lambda: ORDERS in kafka.stored_offsets)
        kafka.write("orders", b"before", b"before, too")
        soon(lambda: kafka.stored_offsets[ORDERS].offset == 2)
        kafka.logs[ORDERS].clear()
        kafka.topic_ids["orders"] = "second"
        kafka.write("orders", b"1")
        soon(lambda: b"1" in seen.values)
        soon(lambda: kafka.forgotten == 1)
        kafka.write("orders", b"2")
        soon(lambda: b"2" in seen.values)
    assert kafka.forgotten == 1
    assert seen.counts[b"2"] == 1


@pytest.mark.parametrize(
    ("stored", "has_run", "begun"),
    [
        ({}, False, set()),
        ({}, True, {"orders", "returns"}),
        ({ORDERS: Stored(3)}, True, {"orders", "returns"}),  # of a version that did not say
        ({RETRY: encode(3, [], topics=["orders"])}, True, {"orders"}),
        ({RETRY: encode(3, [], topics=[])}, True, set()),
        ({RETRY: encode(3, [])}, True, {"orders", "returns"}),
        ({RETRY: encode(3, [], topics=["others"]), RETURNS: Stored(1)}, True, {"cb.retry.points", "returns"}),
        ({RETRY: encode(3, [], topics=["orders"]), RETRY._replace(partition=1): Stored(1)}, False, {"orders"}),
    ],
)
def test_which_topics_a_group_has_begun(stored: dict[TopicPartition, Stored], has_run: bool, begun: set[str]) -> None:  # noqa: FBT001  (a case)
    found = begun_before(["orders", "returns"], "cb.retry.points", stored, has_run=has_run)
    assert found - {"cb.retry.points"} == begun - {"cb.retry.points"}


def test_a_file_of_offsets_forgets_nothing() -> None:
    assert begun_before(["orders", "returns"], "", {ORDERS: Stored(3)}, has_run=False) == {"orders"}


@pytest.mark.parametrize(
    ("offset", "first", "end", "setting", "new", "skipped"),
    [
        (4, 10, 30, WhenOffsetIsGone.EARLIEST, 10, 6),
        (4, 10, 30, WhenOffsetIsGone.LATEST, 30, 26),
        (40, 0, 30, WhenOffsetIsGone.EARLIEST, 0, 0),  # another topic: what was read is not in it
        (40, 0, 30, WhenOffsetIsGone.LATEST, 30, 30),
    ],
)
def test_what_is_skipped_is_added_to_what_was(
    offset: int, first: int, end: int, setting: WhenOffsetIsGone, new: int, skipped: int
) -> None:
    found = go_on(ORDERS, encode(offset, (), kept=LastingFacts(1_000)), Bounds(first, end), setting)
    assert (found.stored.offset, found.skipped) == (new, skipped)
    assert decode(found.stored).kept.skipped == 1_000 + skipped
    assert ("offsets are skipped" in found.said) == (skipped > 0)


def test_what_is_skipped_is_counted_and_stays_stored_until_somebody_sets_the_offsets() -> None:
    kafka = that_has_run()
    expire(kafka)
    with points(kafka, seen := Recording(), when_offset_is_gone=WhenOffsetIsGone.LATEST) as consumer:
        soon(lambda: ORDERS in kafka.stored_offsets)
        assert consumer.figures().topics["orders"].skipped == 4
        kafka.write("orders", b"new")
        soon(lambda: kafka.stored_offsets[ORDERS].offset == 5)
        assert decode(kafka.stored_offsets[ORDERS]).kept.skipped == 4
    with points(kafka, seen) as again:
        kafka.write("orders", b"newer")
        soon(lambda: kafka.stored_offsets[ORDERS].offset == 6)
        assert decode(kafka.stored_offsets[ORDERS]).kept.skipped == 4
        assert again.figures().all.skipped == 0, "of this process"
        again.reset({ORDERS: 6}).result(30)
        assert decode(kafka.stored_offsets[ORDERS]).kept.skipped == 0
    assert seen.values == [b"new", b"newer"]


def test_a_topic_that_was_made_again_before_a_restart_is_read_from_its_first_message(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The consumer of before had read on in it, where the other one was, and stored that."""
    kafka = FakeKafka(topics={"cb.later": 1, "orders": 1}, topic_ids={"orders": "first"})
    with points(kafka, seen := Recording()):
        soon(lambda: ORDERS in kafka.stored_offsets)
        kafka.write("orders", b"before", b"before, too")
        soon(lambda: kafka.stored_offsets[ORDERS].offset == 2)
        kafka.logs[ORDERS].clear()
        kafka.topic_ids["orders"] = "second"
        kafka.write("orders", b"1", b"2", b"3")
        soon(lambda: kafka.stored_offsets[ORDERS].offset == 3)
    with points(kafka, seen):
        soon(lambda: set(seen.values) >= {b"1", b"2", b"3"})
        soon(lambda: decode(kafka.stored_offsets[ORDERS]).kept.topic == letters("second"))
    assert "orders-0: what was read before offset 3 is not there now" in caplog.text


def test_a_narrower_subscription_forgets_no_topic() -> None:
    kafka = that_has_run()
    kafka.write("returns", b"before")
    with points(kafka, Recording(), "orders", "returns"):
        soon(lambda: has_begun(kafka.stored_offsets.get(RETRY, Stored(0)), "returns"))
    with points(kafka, Recording(), "orders"):
        soon(lambda: has_begun(kafka.stored_offsets[RETRY], "orders"))
        kafka.write("cb.retry.points", b"it is stored again")
        soon(lambda: kafka.stored_offsets[RETRY].offset == 1)
    assert has_begun(kafka.stored_offsets[RETRY], "returns")
    del kafka.stored_offsets[RETURNS]
    with points(kafka, seen := Recording(), "orders", "returns"):
        soon(lambda: b"before" in seen.values)


def test_what_was_read_before_retention_deleted_the_rest_is_handled() -> None:
    """It cannot be read again. Kafka is away just as it is asked where the partition begins."""
    kafka = FakeKafka()
    go_on = Event()

    def says(*_: object) -> ConsumeResult:
        assert go_on.wait(60)
        return ConsumeResult.SUCCESS

    kafka.write("orders", b"0", b"1", b"2")
    seen = Recording(says)
    settings = ConsumerSettings(concurrency=1, start_at=StartAt.FIRST, store_interval=0.05)
    with PushConsumer("fake:9092", "points", seen, ["orders"], settings=settings, clients=kafka) as consumer:
        soon(lambda: sum(one.held for one in consumer.figures().partitions) == 3)
        kafka.write("orders", *(b"%d" % number for number in range(3, 12)))
        kafka.first[ORDERS], kafka.limits_away = 10, 2
        go_on.set()
        soon(lambda: seen.values == [b"0", b"1", b"2", b"10", b"11"])
        soon(lambda: kafka.stored_offsets[ORDERS].offset == 12)
        assert consumer.figures().topics["orders"].skipped == 7
    assert decode(kafka.stored_offsets[ORDERS]).kept.skipped == 7


def test_what_was_done_ahead_was_not_skipped() -> None:
    done = encode(0, [range(1, 100)])
    found = go_on(ORDERS, done, Bounds(100, 300), WhenOffsetIsGone.EARLIEST)
    assert (found.skipped, "deleted 1 offsets unread" in found.said) == (1, True)


def test_of_a_log_that_was_cut_off_nobody_knows_what_was_skipped() -> None:
    found = go_on(ORDERS, encode(40, ()), Bounds(1_000_000, 2_000_000), WhenOffsetIsGone.EARLIEST, made_again=True)
    assert (found.stored.offset, found.skipped) == (1_000_000, 0)


def test_what_a_reader_before_had_done_ahead_was_not_skipped() -> None:
    kafka = FakeKafka(stored_offsets={ORDERS: encode(0, [range(1, 3)])})
    kafka.write("orders", b"0", b"1", b"2", b"3", b"4")
    kafka.first[ORDERS] = 4
    with points(kafka, seen := Recording()) as consumer:
        soon(lambda: seen.values == [b"4"])
        assert consumer.figures().topics["orders"].skipped == 2
