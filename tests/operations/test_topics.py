"""Checkback's own topics have Kafka's time: a producer's wrong clock deletes nothing."""

import time
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from kafka import KafkaAdminClient, KafkaProducer
from kafka.admin import ConfigResource
from kafka.errors import MessageSizeTooLargeError

from checkback.exceptions import ConfigurationError
from checkback.local import LocalKafka
from checkback.operations.topic_facts import facts_of, faults
from checkback.operations.topics import Made, TopicAdministration
from conf import TransactionSettings
from tests.place import HALF_PARTITIONS, STATE_PARTITIONS, Place, wait_until

_IN_1970 = 1
_LARGE: dict[str, Any] = {"max_request_size": 5_000_000, "retries": 0}
_DAY_MS = 24 * 3_600_000


@pytest.fixture
def administration(place: Place) -> Iterator[TopicAdministration]:
    with TopicAdministration(place.bootstrap_servers) as opened:
        yield opened


def with_producers_time(place: Place, *names: str) -> None:
    """As an earlier version made them."""
    configure(place, names, **{"message.timestamp.type": "CreateTime"})


def configure(place: Place, names: Iterable[str], **configuration: str) -> None:
    admin = KafkaAdminClient(bootstrap_servers=place.bootstrap_servers)
    try:
        admin.alter_configs([ConfigResource("TOPIC", name, configuration) for name in names])
    finally:
        admin.close()


def create(administration: TopicAdministration, place: Place) -> dict[str, Made]:
    return administration.create(
        place.topics,
        partitions=HALF_PARTITIONS,
        progress_partitions=STATE_PARTITIONS,
        replication=1,
        times=TransactionSettings(),
    )


def refused(administration: TopicAdministration, place: Place) -> str:
    try:
        administration.check(place.topics, STATE_PARTITIONS, 12 * _DAY_MS)
    except ConfigurationError as error:
        return str(error)
    return ""


def send_from_1970(place: Place, topic: str) -> None:
    producer = place.producer()
    producer.send(topic, b"late", key=b"key", timestamp_ms=_IN_1970).get(120)
    producer.close()


def test_what_a_producer_dates_1970_is_kept_as_of_now(place: Place) -> None:
    before = int(time.time() * 1000)
    for topic in place.topics.all():
        send_from_1970(place, topic)
        (record,) = place.read(topic)
        assert (record.timestamp_type, record.timestamp >= before - 1_000) == (1, True), topic


def test_topics_of_an_earlier_version_are_refused_until_they_are_corrected(
    place: Place, administration: TopicAdministration
) -> None:
    half, op = place.topics.half, place.topics.op
    assert set(create(administration, place).values()) == {Made.THERE}
    with_producers_time(place, half, op)
    wait_until(lambda: half in refused(administration, place))
    said = refused(administration, place)
    assert said.startswith(f"{half}, {op}: ")
    assert "Run 'checkback topics create'" in said
    made = create(administration, place)
    assert made == {**dict.fromkeys(place.topics.all(), Made.THERE), half: Made.CORRECTED, op: Made.CORRECTED}
    wait_until(lambda: not refused(administration, place))
    assert set(create(administration, place).values()) == {Made.THERE}
    send_from_1970(place, half)
    (record,) = place.read(half)
    assert record.timestamp > _IN_1970


def test_what_a_producer_compressed_counts_with_its_real_size(
    place: Place, administration: TopicAdministration, caplog: pytest.LogCaptureFixture
) -> None:
    half = place.topics.half
    with KafkaProducer(bootstrap_servers=place.bootstrap_servers, compression_type="gzip", **_LARGE) as producer:
        with pytest.raises(MessageSizeTooLargeError):
            producer.send(half, bytes(2_000_000)).get(120)
        configure(place, [half], **{"compression.type": "producer"})
        wait_until(lambda: not refused(administration, place) and half in caplog.text)
        assert "Run 'checkback topics create', which sets compression.type=uncompressed" in caplog.text
        producer.send(half, bytes(2_000_000)).get(120)
        assert create(administration, place)[half] is Made.CORRECTED

        def taken() -> bool:
            try:
                producer.send(half, bytes(2_000_000)).get(120)
            except MessageSizeTooLargeError:
                return False
            return True

        wait_until(lambda: not taken())


def test_a_retention_that_is_too_short_to_read_large_messages_again_is_refused_and_lengthened(
    place: Place, administration: TopicAdministration
) -> None:
    half = place.topics.half

    def kept_for(days: int) -> None:
        admin = KafkaAdminClient(bootstrap_servers=place.bootstrap_servers)
        admin.alter_configs([ConfigResource("TOPIC", half, {"retention.ms": str(days * _DAY_MS)})])
        admin.close()

    def said() -> str:
        return refused(administration, place)

    assert said() == ""
    kept_for(5)  # as an earlier version made it
    wait_until(lambda: bool(said()))
    assert said().startswith(f"{half} is kept for 5 days (retention.ms=432000000), and large messages are read again")
    assert "12 days. Run 'checkback topics create'" in said()
    assert create(administration, place)[half] == Made.CORRECTED
    wait_until(lambda: not said())
    kept_for(90)
    assert create(administration, place)[half] == Made.THERE


HOSTILE = {
    "log.cleanup.policy": "compact",
    "log.message.timestamp.type": "CreateTime",
    "log.retention.ms": "60000",
    "log.retention.bytes": "1000000",
    "log.segment.bytes": "1048576",
    "unclean.leader.election.enable": "true",
    "min.insync.replicas": "2",
    "compression.type": "zstd",
    "message.max.bytes": "100000",
}
"""Defaults of a broker, each of which loses or hurts where a topic does not say otherwise."""


def test_topics_are_as_they_must_be_whatever_the_brokers_defaults_are(place: Place) -> None:
    with LocalKafka(heap_megabytes=256, properties=HOSTILE) as broker:
        here = place.on(broker.bootstrap_servers)
        with TopicAdministration(here.bootstrap_servers) as administration:
            create(administration, here)
            assert refused(administration, here) == ""
        admin = KafkaAdminClient(bootstrap_servers=here.bootstrap_servers)
        found = facts_of(admin, here.topics.all())
        admin.close()
    assert faults(found, here.topics, TransactionSettings(), STATE_PARTITIONS) == []
    assert {one.configuration["compression.type"] for one in found.values()} == {"uncompressed", "producer"}


def test_a_start_refuses_compacted_topics_until_they_are_corrected(
    place: Place, administration: TopicAdministration
) -> None:
    topics = place.topics
    kept = [topics.half, topics.op, topics.check, topics.parked, topics.rejected, topics.progress, topics.later]
    kept.append(topics.audit)
    configure(place, kept, **{"cleanup.policy": "compact"})
    wait_until(lambda: all(name in refused(administration, place) for name in kept))
    said = refused(administration, place)
    assert "(cleanup.policy=compact). Run 'checkback topics create', which sets cleanup.policy=delete." in said
    configure(place, [topics.status, topics.producers], **{"cleanup.policy": "delete"})
    made = create(administration, place)
    assert [name for name, what in made.items() if what is Made.CORRECTED] == [
        name for name in topics.all() if name != topics.control
    ]
    wait_until(lambda: not refused(administration, place))


def test_a_start_refuses_a_topic_that_takes_nothing(place: Place, administration: TopicAdministration) -> None:
    op = place.topics.op
    configure(place, [op], **{"min.insync.replicas": "2"})
    wait_until(lambda: refused(administration, place).startswith(f"{op} takes nothing: it has min.insync.replicas=2"))


def test_a_start_warns_of_what_may_lose(
    place: Place, administration: TopicAdministration, caplog: pytest.LogCaptureFixture
) -> None:
    configure(place, [place.topics.half], **{"unclean.leader.election.enable": "true"})
    wait_until(lambda: refused(administration, place) == "" and "unclean.leader.election.enable=true" in caplog.text)
    assert "Run 'checkback topics create', which sets unclean.leader.election.enable=false" in caplog.text


@pytest.fixture(scope="module")
def quick() -> Iterator[LocalKafka]:
    """A broker that deletes and compacts at once."""
    often = {
        "log.retention.check.interval.ms": "200",
        "log.cleaner.backoff.ms": "200",
        "log.initial.task.delay.ms": "0",
    }
    with LocalKafka(heap_megabytes=256, properties=often) as broker:
        yield broker


def test_retention_deletes_what_has_the_producers_time_and_keeps_what_has_kafkas(
    place: Place, quick: LocalKafka
) -> None:
    here = place.on(quick.bootstrap_servers)
    here.create_topics(real_partitions=1)
    half, op = here.topics.half, here.topics.op
    with_producers_time(here, op)
    for topic in (half, op):
        send_from_1970(here, topic)
    wait_until(lambda: not here.read(op), what="what is stamped 1970 to be deleted")
    assert [record.value for record in here.read(half)] == [b"late"]


def test_keys_that_were_made_up_are_forgotten_while_endpoints_announce_themselves(
    place: Place, quick: LocalKafka
) -> None:
    here = place.on(quick.bootstrap_servers)
    here.create_topics(real_partitions=1)
    producers = here.topics.producers
    producer = here.producer()
    for number in range(150):
        producer.send(producers, b"v" * 100_000, key=b"made-up/%d" % number)
    producer.flush(60)
    configure(here, [producers], **{"retention.ms": "1000", "min.cleanable.dirty.ratio": "0.01"})

    def made_up_are_gone() -> bool:
        # a second after its last record the broker deletes the last segment, too, with all that is in it
        producer.send(producers, b"v" * 100_000, key=b"shop/1").get(60)
        keys = [record.key for record in here.read(producers)]
        return b"shop/1" in keys and sum(key.startswith(b"made-up") for key in keys) <= 45

    wait_until(made_up_are_gone, what="made-up keys to be deleted, all but one segment of them")
    producer.close()
