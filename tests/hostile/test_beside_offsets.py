"""Whoever may commit for a group writes what he likes beside its offsets."""

from contextlib import closing
from functools import partial

import pytest
from confluent_kafka import TopicPartition
from kafka import TopicPartition as PythonPartition
from kafka.structs import OffsetAndMetadata

from checkback.consumer.offsets.metadata import Note, Stored, decode
from checkback.consumer.resetting.group_offsets import answered
from checkback.operations.job_in_kafka import JobInKafka, claim_in
from checkback.operations.topics import admin_client
from checkback.wire.groups import claim_group, metadata_of
from streaming.brokers.client import SinkSettings
from streaming.kafka_sink import partition_writer
from streaming.later.offsets import Reached, StoredOffset
from streaming.ownership import claim
from tests.consumer.group import group_of, member, stored_by, write
from tests.consumer.waiting import Recording, soon
from tests.hostile.records import WILD_NOTES
from tests.place import Place


class Unended:
    """An offset of confluent-kafka, behind whose note lies no text in memory."""

    @property
    def metadata(self) -> str:
        raise UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte")


@pytest.mark.parametrize("note", WILD_NOTES)
def test_a_wild_note_says_nothing(note: str) -> None:
    assert claim_in(note) is None
    assert claim._owner(note) is None
    assert partition_writer._run(note) is None
    assert StoredOffset.of(TopicPartition("later", 0, 7, note)).topic_id == ""
    assert decode(Stored(7, note)) == Note()


@pytest.mark.parametrize("odd", ["1e999", "-1", "9" * 4_000, "null", "[]", '"\\ud800"', str(2**63)])
@pytest.mark.parametrize("name", ["topic", "partitions", "end"])
def test_a_note_of_ours_with_one_thing_wrong_says_nothing(name: str, odd: str) -> None:
    said = {"topic": '"id"', "partitions": "2", "end": "8"}
    text = ", ".join(f'"{key}": {value}' for key, value in {**said, name: odd}.items())
    found = StoredOffset.of(TopicPartition("later", 0, 7, f"{{{text}}}"))
    assert found == StoredOffset(Reached(7))


def test_where_confluent_kafka_cannot_say_it_there_is_none() -> None:
    assert metadata_of(Unended()) == ""


@pytest.fixture(params=[WILD_NOTES[0], "ä" * 2_000], ids=["deep", "long"])
def noted(place: Place, request: pytest.FixtureRequest) -> str:
    """A note beside the claim, and beside a consumer group's offset; by a client that does not end it."""
    with closing(admin_client(place.bootstrap_servers)) as admin:
        beside = OffsetAndMetadata(0, request.param, -1)
        for group, topic in (
            (claim_group(place.topics), place.topics.progress),
            (group_of(place.topics), place.real_topic),
        ):
            offsets = {PythonPartition(topic, 0): beside}
            answered(partial(admin.alter_group_offsets, group, offsets))
    return str(request.param)


def test_what_is_no_claim_is_somebodys_all_the_same(place: Place, noted: str) -> None:
    with closing(claim.Claim(SinkSettings(place.bootstrap_servers, place.topics, 60_000))) as made:
        for _ in range(50):  # what lies behind it in memory is another thing each time
            assert made.owner() == claim._UNKNOWN
    with JobInKafka(place.bootstrap_servers, place.topics) as asked:
        assert asked.claim() is None


def test_a_consumer_goes_on_at_the_offset(place: Place, noted: str) -> None:
    write(place, b"0", b"1", b"2", b"3", b"4")
    seen = Recording()
    with member(place, seen) as consumer:
        soon(lambda: len(seen.messages) == 5)
        soon(lambda: not consumer.figures().lag)
        consumer.raise_if_dead()
    assert stored_by(place)
