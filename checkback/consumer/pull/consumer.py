"""A consumer that is told where to read, and says what it found there (RocketMQ's pull consumer)."""

import logging
import os
from collections.abc import Mapping, Sequence
from time import monotonic
from types import TracebackType
from typing import Any, NamedTuple, Self

from checkback.consumer.listener import NOT_UTF_8, ReceivedMessage, TopicPartition, UnreadableMessage, refuse_no_place
from checkback.consumer.pull.client import ASK_SECONDS, LogRead, PullClient
from checkback.consumer.pull.status import Facts, PullStatus, Read, Verdict, judge
from checkback.consumer.tags import TagExpression
from checkback.exceptions import ConfigurationError, KafkaUnreachableError
from checkback.forking import in_child_of, refuse_in_child
from checkback.greenlets import refuse_greenlets
from checkback.kafka.bounds import Bounds
from checkback.wire.protocol import is_topic_name

_LOGGER = logging.getLogger(__name__)
_WAITED_FOR = frozenset({PullStatus.NO_MESSAGE_IN_QUEUE, PullStatus.OFFSET_OVERFLOW_ONE})
"""That the next message has not come yet is what a pull may wait for."""
_TRIES = 3


class PullResult(NamedTuple):
    """What a pull found."""

    status: PullStatus
    next_offset: int
    """Where to pull next: behind what was found, or where the offset has to be corrected to."""
    min_offset: int
    """Of the first message that the partition still has."""
    max_offset: int
    """Of the next message to come."""
    messages: Sequence[ReceivedMessage] = ()
    unreadable: Sequence[int] = ()
    """Offsets of messages that were looked at, and are not given since a header's name is not UTF-8."""


class PullConsumer:
    """Reads partitions from offsets that its caller keeps; ``read_committed``. For one thread at a time.

    Use it as a context manager. It is in no group and stores no offset: whoever keeps ``next_offset`` in his database,
    in the transaction in which the messages have their effect, needs no more for effects that happen once.
    All statuses, and which of them Kafka cannot tell apart: ``docs/pull-consumer.md``.

    Args:
        bootstrap_servers: Kafka's ``host:port``, several with commas.
        tag_header: the name of the header whose value is a message's tag.
        kafka_options: further settings of its client, under librdkafka's names.
        client: reads instead of one that is made of these; for tests.

    Raises:
        ConfigurationError: Kafka does not answer, or a setting is wrong.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        *,
        tag_header: str = "tags",
        kafka_options: Mapping[str, Any] | None = None,
        client: PullClient | None = None,
    ) -> None:
        self._tag_header = tag_header
        self._process = os.getpid()
        refuse_greenlets("A pull consumer", "the waits of its Kafka client block every greenlet.")
        self._client = client or PullClient(bootstrap_servers, kafka_options or {})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def partitions(self, topic: str) -> Sequence[int]:
        """The numbers of a topic's partitions; none when Kafka has no such topic.

        Raises:
            ConfigurationError: that is not a topic's name.
            KafkaUnreachableError: Kafka does not answer.
        """
        refuse_in_child(self._process, "PullConsumer")
        _refuse_no_topic(topic)
        return self._client.partitions(topic)

    def pull(
        self,
        topic: str,
        partition: int,
        offset: int,
        max: int = 32,  # noqa: A002  (what RocketMQ's users look for)
        tags: str = "*",
        wait_ms: int = 0,
    ) -> PullResult:
        """Read messages of one partition.

        Args:
            topic: its name.
            partition: its number.
            offset: where to begin.
            max: look at so many messages at most; not all of them need to match.
            tags: ``*``, or tags with ``||`` between them.
            wait_ms: how long to wait for a message where none lies at the offset yet.

        Raises:
            ConfigurationError: an argument makes no sense, or the topic may not be read.
            KafkaUnreachableError: Kafka does not answer.
        """
        refuse_in_child(self._process, "PullConsumer")
        _refuse_no_topic(topic)
        refuse_no_place(partition, offset)
        if max < 1 or wait_ms < 0:
            raise ConfigurationError(f"max {max}, wait_ms {wait_ms}: at least 1 and 0.")
        wanted, log = TagExpression.parse(tags), TopicPartition(topic, partition)
        until = monotonic() + wait_ms / 1000
        for _ in range(_TRIES):
            bounds = self._client.bounds(log)
            verdict = judge(Facts(offset, bounds))
            waits = verdict is not None and verdict.status in _WAITED_FOR and verdict.next_offset == offset
            if verdict is not None and not (waits and monotonic() < until):
                return _result(verdict, bounds)
            read = self._wait(log, offset, max, until) if waits else self._read(log, offset, bounds, max)
            unreadable = tuple(one.offset for one in read.messages if type(one) is UnreadableMessage)
            if unreadable:
                _LOGGER.warning("%s of %s cannot be read: %s", len(unreadable), log, NOT_UTF_8)
            messages = [
                one
                for one in read.messages
                if type(one) is not UnreadableMessage and wanted.admits(one.header(self._tag_header))
            ]
            if waits or read.gone:
                bounds = self._client.bounds(log)
            found = Read(read.next_offset, len(read.messages), len(messages), read.gone)
            verdict = judge(Facts(offset, bounds, found))
            if verdict is not None:
                return _result(verdict, bounds, messages)._replace(unreadable=unreadable)
        raise KafkaUnreachableError(f"Kafka lists offset {offset} of {log}, but does not return it.")

    def close(self) -> None:
        """Let go of Kafka. In a forked child it is the parent's, and stays open."""
        if not in_child_of(self._process):
            self._client.close()

    def _wait(self, partition: TopicPartition, offset: int, most: int, until: float) -> LogRead:
        return self._client.read(partition, offset, most, max(0.0, until - monotonic()))

    def _read(self, partition: TopicPartition, offset: int, bounds: Bounds | None, most: int) -> LogRead:
        """What lies from an offset within the bounds on: the next messages, or that there is none."""
        maximum = offset if bounds is None else bounds.end
        until = monotonic() + ASK_SECONDS
        read = LogRead((), offset)
        while not (read.messages or read.gone or read.next_offset >= maximum):
            if monotonic() > until:
                raise KafkaUnreachableError(f"Kafka does not return the record at offset {offset} of {partition}.")
            read = self._client.read(partition, read.next_offset, most, until - monotonic())
        return read


def _refuse_no_topic(topic: str) -> None:
    if not isinstance(topic, str) or not is_topic_name(topic):
        raise ConfigurationError(f"{topic!r} is not a topic's name (a-z A-Z 0-9 . _ -).")


def _result(verdict: Verdict, bounds: Bounds | None, messages: Sequence[ReceivedMessage] = ()) -> PullResult:
    minimum, maximum = bounds or (0, 0)
    found = verdict.status is PullStatus.FOUND
    return PullResult(
        verdict.status,
        verdict.next_offset,
        minimum,
        max(maximum, messages[-1].offset + 1) if found else maximum,  # some may have come since it was asked
        messages if found else (),
    )
