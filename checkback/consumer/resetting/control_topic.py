"""Reads ``cb.control`` from now on, and writes to it, with either Kafka client."""

from collections.abc import Mapping
from typing import Any

from checkback.consumer.listener import ReceivedMessage, TopicPartition
from checkback.consumer.pull.connecting import connect as connect_reading
from checkback.exceptions import ConfigurationError
from checkback.kafka.connecting import TransportName
from checkback.kafka.connecting import connect as connect_writing
from checkback.kafka.kafka_python.library import KafkaConsumer, KafkaProducer
from checkback.kafka.transport import OutgoingRecord, Transport

_WRITE_MS = 10_000
_FETCH_WAIT_MS = 1_000
"""Long: each consumer reads it, and there is hardly ever anything."""
_AT_ONCE = 1_000
_OF_CONNECTIONS = ("security.", "sasl.", "ssl.", "enable.ssl", "socket.", "broker.", "reconnect.", "oauth")


class ControlTopic:
    """A reader of it, and a writer, which connects when it is needed first. For one thread at a time.

    ``options``: of a consumer; those that are about the connection are taken.

    Raises:
        ConfigurationError: Kafka does not answer.
    """

    def __init__(
        self, topic: str, bootstrap_servers: str, transport: TransportName | str, options: Mapping[str, Any]
    ) -> None:
        self._place = TopicPartition(topic, 0)
        self._name, self._bootstrap_servers = transport, bootstrap_servers
        self._options = _of_connection(transport, options)
        patience = "fetch_max_wait_ms" if transport == TransportName.KAFKA_PYTHON else "fetch.wait.max.ms"
        self._reading = connect_reading(transport, bootstrap_servers, {**self._options, patience: _FETCH_WAIT_MS})
        self._writing: Transport | None = None
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
            self._writing = connect_writing(self._name, self._bootstrap_servers, _WRITE_MS, self._options)
        for key, value in records.items():
            self._writing.write_half(OutgoingRecord(*self._place, key, value, ()))

    def close(self) -> None:
        """Let go of Kafka."""
        self._reading.close()
        if self._writing is not None:
            self._writing.close(_WRITE_MS / 1000)


def _of_connection(transport: TransportName | str, options: Mapping[str, Any]) -> dict[str, Any]:
    if transport == TransportName.KAFKA_PYTHON:
        both = KafkaConsumer.DEFAULT_CONFIG.keys() & KafkaProducer.DEFAULT_CONFIG.keys()
        return {name: value for name, value in options.items() if name in both}
    return {name: value for name, value in options.items() if name.startswith(_OF_CONNECTIONS)}
