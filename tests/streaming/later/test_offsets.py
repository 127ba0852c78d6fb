"""Where the forwarder of ``cb.later`` goes on, by what Kafka has of its group and what the checkpoint remembers."""

import json
import logging

import pytest
from confluent_kafka import TopicPartition

from checkback.exceptions import JobStoppedError
from checkback.kafka.bounds import Bounds
from checkback.kafka.librdkafka.topics import TopicDescription
from streaming.later.offsets import Reached, StoredOffset, begin_at, to_store

TOPIC = TopicDescription("id", 2)
BOUNDS = [Bounds(5, 100), Bounds(7, 100)]
NONE = StoredOffset(None)


def stored(offset: int, topic_id: str = "id", partitions: int = 2, end: int = 0) -> StoredOffset:
    return StoredOffset(Reached(offset, end=end), topic_id, partitions)


def begin(*given: StoredOffset, topic: TopicDescription = TOPIC, remembered: bool = False) -> dict[int, int]:
    bounds = [*BOUNDS, Bounds(0, 100)][: len(given)]
    return {at: one.offset for at, one in begin_at("cb.later", topic, given, bounds, remembered=remembered).items()}


def test_what_is_stored_holds() -> None:
    assert begin(stored(10), stored(100), remembered=True) == {0: 10, 1: 100}
    # an operator's, or an earlier version's
    assert begin(stored(10), stored(20, topic_id="", partitions=0), remembered=True) == {0: 10, 1: 20}


def test_what_was_never_moved_begins_at_its_first_record() -> None:
    assert begin(NONE, NONE) == {0: 5, 1: 7}
    # a partition that was added
    assert begin(stored(10), stored(20), NONE, topic=TopicDescription("id", 3), remembered=True) == {0: 10, 1: 20, 2: 0}


@pytest.mark.parametrize(
    ("given", "remembered", "names"),
    [
        ([NONE, NONE], True, "cb.later:0,1 "),
        ([stored(10), NONE], False, "cb.later:1 "),
        ([NONE, stored(10)], True, "cb.later:0 "),
        ([NONE, stored(10, topic_id="", partitions=0)], True, "cb.later:0 "),
    ],
)
def test_what_kafka_has_forgotten_is_not_moved_again(
    given: list[StoredOffset], names: str, *, remembered: bool
) -> None:
    with pytest.raises(JobStoppedError, match=f"forgotten how far {names}.*--reset-offsets"):
        begin(*given, remembered=remembered)


def test_a_topic_that_was_made_again_begins_at_its_first_records() -> None:
    """The checkpoint remembers the one before; some of its offsets may be there still, or be stored a moment later."""
    assert begin(stored(10, "old"), NONE) == {0: 5, 1: 7}
    assert begin(stored(10, "old"), stored(200, "old", partitions=9)) == {0: 5, 1: 7}


def test_a_kafka_that_gives_topics_no_id() -> None:
    nameless = TopicDescription("", 2)
    assert begin(stored(10, ""), stored(20, "id"), topic=nameless, remembered=True) == {0: 10, 1: 20}
    with pytest.raises(JobStoppedError, match="forgotten"):
        begin(stored(10, ""), NONE, topic=nameless)


def test_a_log_that_ends_before_what_was_moved() -> None:
    with pytest.raises(JobStoppedError, match=r"lost records at the end of cb\.later:1 .*--reset-offsets"):
        begin(stored(10), stored(101))


def test_what_retention_has_removed_is_said_when_it_was_more_than_ends_of_transactions(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.ERROR):
        assert begin(stored(3, end=5), stored(7)) == {0: 5, 1: 7}
        assert not caplog.records
        assert begin(stored(3, end=4), stored(7)) == {0: 5, 1: 7}
    (said,) = caplog.messages
    assert "removed offsets 4 to 4 before they were moved" in said


def test_what_is_stored_is_read_again_as_it_was() -> None:
    reached = {0: Reached(10, epoch=3, end=12), 1: Reached(0)}
    stored_again = [StoredOffset.of(one) for one in to_store("cb.later", TOPIC, reached)]
    assert stored_again == [StoredOffset(one, "id", 2) for one in reached.values()]


@pytest.mark.parametrize("metadata", ["", "{", "null", "[]", json.dumps({"topic": "id"}), json.dumps({"end": "x"})])
def test_others_metadata_says_nothing(metadata: str) -> None:
    assert StoredOffset.of(TopicPartition("cb.later", 0, 10, metadata)) == StoredOffset(Reached(10))
