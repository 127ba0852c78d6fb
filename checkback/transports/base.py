"""What the producer needs of a Kafka client, and nothing more."""

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, NamedTuple, Protocol

from checkback.exceptions import ConfigurationError, HalfMessageError, HalfMessageTimeoutError
from checkback.protocol import Headers

OP_LINGER_MS = 20
"""Ops wait so long for others. A request of its own for each would cost the next half message a sixth of its time."""


class TransportName(StrEnum):
    """The transports there are."""

    KAFKA_PYTHON = "kafka-python"
    CONFLUENT = "confluent-kafka"
    """Needs the extra ``fast``."""


class OutgoingRecord(NamedTuple):
    """A record for one partition."""

    topic: str
    partition: int
    key: bytes | None
    value: bytes | None
    headers: Headers


Lost = Callable[[BaseException], None]


class Transport(Protocol):
    """A Kafka client for half messages and ops: acks=all, idempotent. All threads of a process may use one."""

    def partitions(self, half_topic: str, op_topic: str) -> int:
        """How many partitions both topics have, as far as the clients that write to each know.

        Raises:
            ConfigurationError: there is no such topic, or Kafka does not say.
        """

    def write_half(self, record: OutgoingRecord) -> int:
        """Write a record, wait until Kafka has it, and return its offset.

        Raises:
            HalfMessageTimeoutError: Kafka did not acknowledge it in time; it may have it all the same.
            HalfMessageError: it was not written.
        """

    def write_op(self, record: OutgoingRecord, lost: Lost) -> None:
        """Write a record without waiting. ``lost`` is called, from any thread, when that fails; this never raises."""

    def flush(self, seconds: float) -> None:
        """Wait, for at most so long, until all ops have been written or lost."""

    def close(self, seconds: float) -> None:
        """Write what is waiting, for at most so long, and end."""


def not_acknowledged(timeout_ms: int, why: object) -> HalfMessageTimeoutError:
    """What ``write_half`` raises when nothing was heard in time."""
    return HalfMessageTimeoutError(
        f"Kafka did not acknowledge the half message within {timeout_ms} ms, so the local transaction was not run. "
        f"It may be in the log: then the check rolls it back. ({why})"
    )


def not_written(why: object) -> HalfMessageError:
    """What ``write_half`` raises when Kafka does not have the record."""
    return HalfMessageError(f"The half message was not written, so the local transaction was not run: {why}")


def connect(
    name: TransportName | str, bootstrap_servers: str, half_timeout_ms: int, options: Mapping[str, Any]
) -> Transport:
    """Connect a transport. ``options`` are further settings of its client, under that client's names.

    Raises:
        ConfigurationError: there is no such transport, its package is missing, or Kafka does not answer.
    """
    # each imports its own client, of which one may be missing
    if name == TransportName.KAFKA_PYTHON:
        from checkback.transports.kafka_python import KafkaPythonTransport  # noqa: PLC0415

        return KafkaPythonTransport(bootstrap_servers, half_timeout_ms, options)
    if name == TransportName.CONFLUENT:
        try:
            from checkback.transports.confluent import ConfluentTransport  # noqa: PLC0415
        except ImportError as error:
            raise ConfigurationError("The transport confluent-kafka needs: pip install 'checkback[fast]'.") from error
        return ConfluentTransport(bootstrap_servers, half_timeout_ms, options)
    raise ConfigurationError(f"There is no transport {name!r}: use {' or '.join(TransportName)}.")
