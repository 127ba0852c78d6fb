"""Reads single half messages again, whose content was not carried along: see docs/decisions/0019-large-content.md."""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from time import monotonic
from typing import Any

from checkback.kafka.librdkafka import make_client
from checkback.kafka.librdkafka.asked_bounds import asked_bounds
from checkback.kafka.librdkafka.errors import LEADER_AWAY
from checkback.kafka.librdkafka.library import Consumer, KafkaError, KafkaException, Message, TopicPartition
from checkback.kafka.reaching import RECONNECT_MS
from streaming.brokers.client import ANSWER_BYTES

_ANSWER_SECONDS = 60.0
"""Kafka gives nothing for that long: it is away."""
_SKIPPED_BYTES = 512 << 10
_SKIPPED = 4_096
"""What lies between two wanted offsets is read through, up to so many bytes and offsets; beyond that the next one is
asked for by itself, which takes some milliseconds."""
_NOWHERE = -1
_GONE = (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE)


class HalfReader:
    """Half messages by partition and offset, read committed. Keeps one connection; one reader at a time.

    Not in a consumer group: it is told where to read, and commits nothing. ``client`` are settings of a librdkafka
    client.
    """

    def __init__(self, client: Mapping[str, Any], half_topic: str, seconds: float = _ANSWER_SECONDS) -> None:
        self._topic = half_topic
        self._seconds = seconds
        self._consumer = make_client(
            Consumer,
            {
                **client,
                "group.id": "checkback-half-reader",  # librdkafka wants a name; nobody is told of it
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "receive.message.max.bytes": ANSWER_BYTES,
                # bytes in flight: a little more than is asked for
                "queued.max.messages.kbytes": 8 * 1024,
                "fetch.queue.backoff.ms": 5,
                # the next read waits for a fetch that is under way at the log's end
                "fetch.wait.max.ms": 10,
                "reconnect.backoff.ms": 10,
                "reconnect.backoff.max.ms": RECONNECT_MS,
            },
        )

    def read(self, partition: int, offsets: Iterable[int]) -> Iterator[tuple[int, Message | None]]:
        """The messages at these offsets, by offset; None for one that Kafka has no more.

        The iterator must be taken to its end, or closed, before the next read.

        Raises:
            KafkaException: Kafka does not answer.
        """
        wanted = deque(sorted(set(offsets)))
        first = self._first(partition)
        while wanted and wanted[0] < first:
            yield wanted.popleft(), None
        try:
            yield from self._read_through(partition, wanted)
        finally:
            self._consumer.unassign()

    def _read_through(self, partition: int, wanted: deque[int]) -> Iterator[tuple[int, Message | None]]:
        position = _NOWHERE  # of what is read next
        skipped_bytes = 0
        quiet_since = monotonic()
        while wanted:
            far = wanted[0] - position >= _SKIPPED or (skipped_bytes >= _SKIPPED_BYTES and wanted[0] > position)
            if position == _NOWHERE or far:
                position, skipped_bytes = wanted[0], 0
                self._consumer.assign([TopicPartition(self._topic, partition, position)])
            message = self._consumer.poll(1.0)
            error = message.error() if message is not None else None
            if message is None or (error is not None and error.code() in LEADER_AWAY):
                self._refuse_silence(quiet_since, partition, wanted[0])
                continue
            quiet_since = monotonic()
            offset = message.offset()
            if error is not None:
                if error.code() not in _GONE:
                    raise KafkaException(error)
                if self._first(partition) <= wanted[0]:  # not gone: nobody has it yet
                    raise KafkaException(error)
                position = _NOWHERE
                yield wanted.popleft(), None
                continue
            while wanted and offset is not None and wanted[0] < offset:
                yield wanted.popleft(), None
            if wanted and wanted[0] == offset:
                wanted.popleft()
                skipped_bytes = 0
                yield offset, message
            else:
                skipped_bytes += len(message)
            position = max(position, (offset or 0) + 1)

    def _first(self, partition: int) -> int:
        place = TopicPartition(self._topic, partition)
        return asked_bounds(self._consumer, place, self._seconds, LEADER_AWAY).first

    def _refuse_silence(self, since: float, partition: int, offset: int) -> None:
        if monotonic() - since >= self._seconds:
            place = f"{self._topic}:{partition}:{offset}"
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT, f"no answer to what is at {place}"))
