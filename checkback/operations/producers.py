"""Check endpoints as their producers announce them, and who has signed what was written of each producer group."""

from collections import Counter
from collections.abc import Iterable
from time import monotonic
from typing import Any, NamedTuple

from checkback.exceptions import ProtocolError
from checkback.kafka.kafka_python.library import TopicPartition
from checkback.kafka.kafka_python.reading import PartitionReader
from checkback.kafka.topic_reading import own_topic, partitions_of
from checkback.wire.checks import Announcement
from checkback.wire.own_headers import own_headers
from checkback.wire.protocol import GROUP, SIGNATURE, Topics
from checkback.wire.signed_records import WrittenSignature


class AnnouncedEndpoint(NamedTuple):
    """An endpoint that was announced and has not been taken back."""

    group: str
    instance: str
    url: str
    heard_ms: int
    """When Kafka got its last heartbeat, in ms since 1970."""
    topics: tuple[str, ...] | None = None
    """Real topics it answers for; None: all."""


def announced(records: Iterable[Any]) -> list[AnnouncedEndpoint]:
    """The endpoints that these records of ``cb.producers`` leave, those heard from last at the end.

    What cannot be read takes the announcement under its key back, as the check service has it.
    """
    found: dict[bytes, AnnouncedEndpoint] = {}
    for record in records:
        key = record.key or b""
        found.pop(key, None)
        if record.value is None:
            continue
        try:
            said = Announcement.from_record(record.value, key)
        except ProtocolError:
            continue
        found[key] = AnnouncedEndpoint(said.group, said.instance, said.url, record.timestamp, said.topics)
    return list(found.values())


class SignerSeen(NamedTuple):
    """A producer group, and the id of a key; ``None``: without a signature, or with something else in its place."""

    group: str
    key_id: str | None


class SignersSeen(NamedTuple):
    """How many half messages and ops each has; ``whole`` is False where there was no time to read all."""

    halves: Counter[SignerSeen]
    ops: Counter[SignerSeen]
    whole: bool


def signers_seen(consumer: Any, topics: Topics, since_ms: int, seconds: float) -> SignersSeen:
    """Read half messages and ops from a time on (ms since 1970), for at most ``seconds``, as ``consumer`` sees them.

    Raises:
        ConfigurationError: Kafka has no such topic, or does not let this user read it.
        KafkaError: it does not answer.
    """
    until = monotonic() + seconds
    halves, ops = Counter[SignerSeen](), Counter[SignerSeen]()
    whole = True
    for topic, counted in ((topics.half, halves), (topics.op, ops)):
        for partition in partitions_of(consumer, own_topic(consumer, topic)):
            reader = PartitionReader(consumer, TopicPartition(topic, partition))
            whole &= _count(reader, since_ms, until, counted)
    return SignersSeen(halves, ops, whole)


def _count(reader: PartitionReader, since_ms: int, until: float, counted: Counter[SignerSeen]) -> bool:
    _, end = reader.bounds()
    read_to = reader.offset_at(since_ms, end)
    for records, after in reader.read(read_to, end, until):
        counted.update(map(_seen, records))
        read_to = after
    return read_to >= end


def _seen(record: Any) -> SignerSeen:
    headers = own_headers(record.headers)
    signature = WrittenSignature.parse(headers.get(SIGNATURE))
    group = headers.get(GROUP, b"").decode(errors="replace")
    return SignerSeen(group, None if signature is None else signature.key_id.decode(errors="replace"))
