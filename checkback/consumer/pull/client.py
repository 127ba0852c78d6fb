"""The Kafka client of a pull consumer."""

from collections import deque
from collections.abc import Mapping, Sequence
from time import monotonic
from typing import Any, NamedTuple

from checkback.consumer.clients.translation import received
from checkback.consumer.listener import ReceivedMessage, TopicPartition
from checkback.exceptions import KafkaUnreachableError
from checkback.kafka.bounds import Bounds
from checkback.kafka.client_options import refuse_options
from checkback.kafka.librdkafka import FIXED, connected, make_client
from checkback.kafka.librdkafka.asked_bounds import asked_bounds
from checkback.kafka.librdkafka.errors import GONE, error_code
from checkback.kafka.librdkafka.library import Consumer, KafkaError, KafkaException, Message
from checkback.kafka.librdkafka.library import TopicPartition as KafkaTopicPartition
from checkback.kafka.reaching import CONNECT_MS, longest_pause_ms
from checkback.wire.rights import not_allowed, read

ASK_SECONDS = 10.0
"""For Kafka to answer a question."""
_POLL_SECONDS = 0.1
_MOST_WAITING = 2_000
"""Messages of a partition whose turn it is not: beyond, it is paused, which throws away what librdkafka has of it."""
_FEW_WAITING = _MOST_WAITING // 4


class LogRead(NamedTuple):
    """What was read of a partition's log."""

    messages: Sequence[ReceivedMessage]
    next_offset: int
    """Behind them, and behind offsets that no message has; where it was to begin, when there is nothing yet."""
    gone: bool = False
    """The log does not have the offset, or is not there any more."""


class _Log:
    """What has come of one partition and was not asked for yet."""

    def __init__(self, offset: int) -> None:
        self.position = offset
        """Where the next read goes on."""
        self.reached = offset
        """Behind all that has come."""
        self.waiting: deque[Message] = deque()
        self.paused = False
        self.gone = False

    def came(self, message: Message) -> None:
        """A message, or the word that the end is reached."""
        error, offset = message.error(), message.offset()
        if error is None and offset is not None and offset >= self.reached:
            self.waiting.append(message)
            self.reached = offset + 1
        elif error is not None and error.code() == KafkaError._PARTITION_EOF:
            self.reached = max(self.reached, offset or 0)
        elif error is not None and (error.code() == KafkaError._AUTO_OFFSET_RESET or error.code() in GONE):
            self.gone = True

    def take(self, most: int) -> LogRead:
        """The next messages that have come."""
        messages = [received(self.waiting.popleft()) for _ in range(min(most, len(self.waiting)))]
        self.position = messages[-1].offset + 1 if self.waiting else self.reached
        return LogRead(messages, self.position, self.gone)


class PullClient:
    """Reads from offsets that it is given, ``read_committed``. For one thread at a time.

    librdkafka fetches all partitions that were ever asked for; what comes of those whose turn it is not waits here.

    Raises:
        ConfigurationError: an option is wrong, or Kafka does not answer.
    """

    def __init__(self, bootstrap_servers: str, options: Mapping[str, Any]) -> None:
        refuse_options(options, FIXED, "a pull consumer")
        settings = {
            "bootstrap.servers": bootstrap_servers,
            "group.id": "checkback-pull",  # librdkafka wants one; nothing is stored under it
            "auto.offset.reset": "error",
            "enable.auto.commit": False,
            "enable.partition.eof": True,  # says how far offsets go that no message has
            "isolation.level": "read_committed",
            "fetch.wait.max.ms": 100,
            "reconnect.backoff.max.ms": longest_pause_ms(options, "reconnect.backoff.ms"),
            "log_level": 2,
            **options,
        }
        self._consumer = make_client(Consumer, settings)
        # on a connection of its own: a question behind a fetch that waits is answered when that is
        self._asking = connected(make_client(Consumer, settings), bootstrap_servers, CONNECT_MS / 1000)
        self._logs: dict[TopicPartition, _Log] = {}

    def partitions(self, topic: str) -> Sequence[int]:
        """The numbers of a topic's partitions; none when Kafka has no such topic.

        Raises:
            KafkaUnreachableError: Kafka does not say.
        """
        try:
            known = self._asking.list_topics(timeout=ASK_SECONDS).topics.get(topic)
        except KafkaException as error:
            raise _unanswered(error) from error
        return sorted(known.partitions) if known is not None else ()

    def bounds(self, partition: TopicPartition) -> Bounds | None:
        """Return the offsets that a partition has now; None if Kafka has no such partition.

        Raises:
            ConfigurationError: this user may not see the topic.
            KafkaUnreachableError: Kafka does not answer, or the partition has no leader at present.
        """
        try:
            return asked_bounds(self._asking, KafkaTopicPartition(*partition), ASK_SECONDS)
        except KafkaException as error:
            if error_code(error) == KafkaError.TOPIC_AUTHORIZATION_FAILED:
                raise not_allowed("this client", error, [read(partition.topic, "")]) from error
            if error_code(error) in GONE:
                return None
            raise _unanswered(error) from error

    def read(self, partition: TopicPartition, offset: int, most: int, seconds: float) -> LogRead:
        """Read at most so many messages from an offset on; at once when there is something, else within ``seconds``.

        Raises:
            ConfigurationError: the topic may not be read.
        """
        log = self._log(partition, offset)
        until = monotonic() + seconds
        while not (log.waiting or log.reached > offset or log.gone):
            left = until - monotonic()
            if left < 0:
                break
            self._take_in(min(_POLL_SECONDS, left))
        read = log.take(most)
        if read.gone:
            self._forget(partition)
        elif log.paused and len(log.waiting) < _FEW_WAITING:
            self._consumer.resume([KafkaTopicPartition(*partition)])
            log.paused = False
        return read

    def close(self) -> None:
        """Let go of Kafka."""
        self._asking.close()
        self._consumer.close()

    def _log(self, partition: TopicPartition, offset: int) -> _Log:
        log = self._logs.get(partition)
        if log is not None and log.position == offset:
            return log
        self._forget(partition)  # given again, not sought: a partition that is not fetched yet cannot be
        self._consumer.incremental_assign([KafkaTopicPartition(*partition, offset)])
        log = self._logs[partition] = _Log(offset)
        return log

    def _forget(self, partition: TopicPartition) -> None:
        if self._logs.pop(partition, None) is not None:
            self._consumer.incremental_unassign([KafkaTopicPartition(*partition)])

    def _take_in(self, seconds: float) -> None:
        first = self._consumer.poll(seconds)
        if first is None:
            return
        for message in (first, *self._consumer.consume(_FEW_WAITING, 0)):
            error = message.error()
            if error is not None and error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
                raise not_allowed("this client", error, [read(str(message.topic()), "")])
            log = self._logs.get(TopicPartition(str(message.topic()), message.partition() or 0))
            if log is not None:
                log.came(message)
        for partition, log in self._logs.items():
            if len(log.waiting) > _MOST_WAITING and not log.paused:
                self._consumer.pause([KafkaTopicPartition(*partition)])
                log.paused = True


def _unanswered(error: object) -> KafkaUnreachableError:
    return KafkaUnreachableError(f"Kafka does not answer: {error}.")
