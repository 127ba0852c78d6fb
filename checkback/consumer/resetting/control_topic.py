"""Reads ``cb.control`` from now on, and writes to it."""

from collections.abc import Mapping
from typing import Any

from checkback.consumer.listener import ReceivedMessage, TopicPartition
from checkback.consumer.pull.client import PullClient
from checkback.exceptions import ConfigurationError
from checkback.kafka.client_options import of_reaching
from checkback.kafka.librdkafka.transport import ConfluentTransport
from checkback.kafka.transport import OutgoingRecord

_WRITE_MS = 10_000
_FETCH_WAIT_MS = 1_000
"""Long: each consumer reads it, and there is hardly ever anything."""
_AT_ONCE = 1_000


class ControlTopic:
    """A reader of it, and a writer, which connects when it is needed first. For one thread at a time.

    ``options``: of a consumer. Those that tell how to reach Kafka are used, and others left out.

    Raises:
        ConfigurationError: Kafka does not answer.
    """

    def __init__(self, topic: str, bootstrap_servers: str, options: Mapping[str, Any]) -> None:
        self._place = TopicPartition(topic, 0)
        self._bootstrap_servers = bootstrap_servers
        self._options = of_reaching(options)
        self._reading = PullClient(bootstrap_servers, {**self._options, "fetch.wait.max.ms": _FETCH_WAIT_MS})
        self._writing: ConfluentTransport | None = None
        self._offset: int | None = None

    def go_to_end(self) -> bool:
        """Begin, or begin again, behind the last record; False when Kafka has no such topic.

        Raises:
            KafkaUnreachableError: Kafka does not say.
        """
        bounds = self._reading.bounds(self._place)
        self._offset = None if bounds is None else bounds.end
        return bounds is not None

    def read(self, seconds: float) -> list[ReceivedMessage]:
        """What has come, or comes within ``seconds``.

        Raises:
            CheckbackError: it could not be read.
        """
        if self._offset is None:
            return []
        read = self._reading.read(self._place, self._offset, _AT_ONCE, seconds)
        if read.gone:  # made again
            if not self.go_to_end():
                gone = f"Kafka has no topic {self._place.topic} any more"
                raise ConfigurationError(f"{gone}: run 'checkback topics create'.")
        else:
            self._offset = read.next_offset
        return list(read.messages)

    def write(self, records: Mapping[bytes, bytes | None]) -> None:
        """Write records, by key, and wait until Kafka has them; None takes one back.

        Raises:
            CheckbackError: one was not written.
        """
        if not records:
            return
        if self._writing is None:
            self._writing = ConfluentTransport(self._bootstrap_servers, _WRITE_MS, self._options)
        for key, value in records.items():
            self._writing.write_half(OutgoingRecord(*self._place, key, value, ()))

    def close(self) -> None:
        """Let go of Kafka."""
        self._reading.close()
        if self._writing is not None:
            self._writing.close(_WRITE_MS / 1000)
