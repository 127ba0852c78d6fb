"""On a real Kafka: what kills or fails is a dead letter in the end."""

import threading

from confluent_kafka import Producer
from kafka import KafkaAdminClient
from kafka.admin import ConfigResource, ConfigResourceType

from checkback.consumer import (
    ConsumeResult,
    MessageCounts,
    ReceivedMessage,
    TopicPartition,
)
from checkback.consumer.offsets.metadata import Stored
from checkback.consumer.retry import OwnTopics
from tests.consumer.group import ends_of, group_of, member, stored_by, without_topic, write
from tests.consumer.on_kafka.scene import LATER, SUCCESS, numbered, started
from tests.consumer.waiting import Recording, soon
from tests.place import Place as Topics


def test_the_message_that_kills_is_a_dead_letter_in_the_end(place: Topics) -> None:
    write(place, *numbered(0, 8), b"die", *numbered(8, 8))
    lives, said = 0, list[bytes]()
    while not place.read(place.topics.dead(group_of(place.topics))) and lives < 8:
        lives += 1
        with started(place) as process:
            soon(lambda: process.poll() is not None or dead_letters(place))
            process.kill()
            said += process.communicate()[0].split(b"\n")
    (dead,) = place.read(place.topics.dead(group_of(place.topics)))
    assert dead.value == b"die"
    assert b"1 consumers have ended without a word" in dict(dead.headers)["checkback-reason"]
    assert said.count(b"begin die") == lives - 1
    assert 4 <= lives <= 6


def dead_letters(place: Topics) -> bool:
    return bool(place.read(place.topics.dead(group_of(place.topics))))


def test_what_is_tried_in_vain_is_a_dead_letter_and_its_offset_is_stored_with_it(place: Topics) -> None:
    write(place, b"bad", b"good")
    seen = Recording(lambda message, _: LATER if message.value == b"bad" else SUCCESS)
    with member(place, seen, max_reconsume_times=0) as points:
        soon(lambda: points.figures().all.dead == 1)
    (dead,) = place.read(place.topics.dead(group_of(place.topics)))
    headers = dict(dead.headers)
    assert (dead.value, headers["checkback-origin"]) == (b"bad", f"{place.real_topic}:0:0".encode())
    assert headers["checkback-first-id"] == b"bad"
    assert without_topic(stored_by(place)[TopicPartition(place.real_topic, 0)]) == Stored(1)


def test_headers_without_a_value_and_foreign_retries_end_no_consumer(place: Topics) -> None:
    other = Producer({"bootstrap.servers": place.bootstrap_servers})
    other.produce(place.real_topic, b"bad", partition=0, headers=[("a", None), ("b", b"")])
    assert other.flush(120) == 0
    own, seen = OwnTopics.of(place.topics, group_of(place.topics)), Recording(lambda *_: LATER)
    with member(place, seen, max_reconsume_times=1, retry_levels=[100.0]) as points:
        soon(lambda: points.figures().all.retried == 1)
        later = place.read(place.topics.later)[0]
        foreign: list[tuple[str, str | bytes | None]] = [
            ("checkback-origin", b"x:1:1"),
            ("checkback-origin-time", b"1"),
            ("checkback-tries", b"-100"),
        ]
        other.produce(own.retry, b"bad", headers=[(n, c) for n, c in later.headers if not n.startswith("cb-")])
        other.produce(own.retry, b"foreign", headers=foreign)
        assert other.flush(120) == 0
        soon(lambda: points.figures().all == MessageCounts(retried=2, dead=1))
    again = [message.headers for message in seen.messages if message.value == b"bad"]
    assert [list(headers) for headers in again] == [[("a", None), ("b", b"")]] * 2


def test_a_topic_of_dead_letters_that_was_deleted_is_made_again(place: Topics) -> None:
    dead = place.topics.dead(group_of(place.topics))
    with member(place, Recording(lambda *_: LATER), max_reconsume_times=0) as points:
        write(place, b"first")
        soon(lambda: points.figures().all.dead == 1)
        admin = KafkaAdminClient(bootstrap_servers=place.bootstrap_servers)
        admin.delete_topics([dead])
        soon(lambda: dead not in admin.list_topics())
        admin.close()
        write(place, b"second")
        soon(lambda: points.figures().all.dead == 2)
    assert [record.value for record in place.read(dead)] == [b"second"]
    assert stored_by(place)[TopicPartition(place.real_topic, 0)].offset == 2


def test_what_is_too_large_for_a_later_try_is_dead_and_takes_no_other_with_it(place: Topics) -> None:
    """Ten at once: a batch of those that fit is too large for the topic as well."""
    admin = KafkaAdminClient(bootstrap_servers=place.bootstrap_servers)
    admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, place.topics.later, {"max.message.bytes": "3000"})])
    admin.close()
    small = [b"%d" % number + bytes(900) for number in range(9)]
    write(place, *small[:4], bytes(5_000), *small[4:])
    together = threading.Barrier(10)

    def says(_: ReceivedMessage, __: int) -> ConsumeResult:
        together.wait(20)
        return LATER

    with member(place, Recording(says), concurrency=10) as points:
        soon(lambda: points.figures().all == MessageCounts(retried=9, dead=1))
    assert sorted(record.value for record in place.read(place.topics.later)) == small
    (dead,) = place.read(place.topics.dead(group_of(place.topics)))
    assert dead.value == bytes(5_000)
    assert {part: stored.offset for part, stored in stored_by(place).items()} == ends_of(place)
