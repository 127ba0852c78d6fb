"""What the producer needs of a Kafka client, and nothing more."""

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from checkback.exceptions import HalfMessageError, HalfMessageTimeoutError, NotAllowedError
from checkback.wire.protocol import Headers
from checkback.wire.rights import not_allowed, write

_LOGGER = logging.getLogger(__name__)

OP_LINGER_MS = 20
"""Ops wait up to this many ms for others. A request for each would cost the next half message a sixth of its time."""


ANY_PARTITION = -1
"""Of a record whose key decides, as Java's own client has it; without a key, Kafka's client. librdkafka's number."""


class OutgoingRecord(NamedTuple):
    """A record for one partition."""

    topic: str
    partition: int
    key: bytes | None
    value: bytes | None
    headers: Headers


class Appended(NamedTuple):
    """Where and when a record came into Kafka's log."""

    offset: int
    time_ms: int
    """By Kafka's clock, ms since 1970; where the topic keeps its producers' time, as ours do not, by ours or -1."""


Lost = Callable[[BaseException], None]


class Transport(Protocol):
    """A Kafka client for half messages and ops: acks=all, idempotent. All threads of a process may use one."""

    def partitions(self, half_topic: str, op_topic: str) -> int:
        """How many partitions both topics have, as far as the clients that write to each know.

        Raises:
            NotAllowedError: Kafka does not let this user write to one.
            ConfigurationError: there is no such topic, or Kafka does not say.
        """

    def missing(self, topics: Sequence[str]) -> list[str]:
        """Those of these topics that Kafka says it does not have. One that it says nothing of counts as there.

        Raises:
            KafkaUnreachableError: Kafka does not answer.
        """

    def write_half(self, record: OutgoingRecord) -> Appended:
        """Write a record, wait until Kafka has it, and say where.

        Raises:
            HalfMessageTimeoutError: Kafka did not acknowledge it in time; it may have it all the same.
            HalfMessageError: it was not written.
        """

    def write_op(self, record: OutgoingRecord, lost: Lost) -> None:
        """Write a record without waiting. ``lost`` is called, from any thread, when that fails; this never raises."""

    def flush(self, seconds: float) -> None:
        """Wait, for at most ``seconds``, until all ops have been written or lost."""

    def close(self, seconds: float) -> None:
        """Write what is waiting, for at most ``seconds``, and end."""


Heard = Callable[[BaseException | None], None]


@runtime_checkable
class TellingTransport(Transport, Protocol):
    """One that also says of ops that Kafka has them; what lanes need."""

    def write_heard(self, record: OutgoingRecord, heard: Heard) -> None:
        """As ``write_op``; ``heard`` is called once, from any thread: with None, or with why it was not written."""

    def hear(self) -> None:
        """Have what has become of ops since the last call be heard now. Does not wait."""


NO_PLACE = "Kafka has the record, and its answer to a repeated request lacks the offset"


def not_acknowledged(timeout_ms: int, why: object) -> HalfMessageTimeoutError:
    """What ``write_half`` raises when nothing was heard in time."""
    return HalfMessageTimeoutError(
        f"Kafka did not acknowledge the half message within {timeout_ms} ms, so the local transaction was not run. "
        f"It may be in the log: then the check rolls it back. ({why})"
    )


def not_written(why: object) -> HalfMessageError:
    """What ``write_half`` raises when Kafka does not have the record."""
    return HalfMessageError(f"The half message was not written, so the local transaction was not run: {why}")


def may_not_write(topic: str, error: object) -> NotAllowedError:
    """What is raised, or said, when this user may not write to one of Checkback's topics."""
    return not_allowed("the producer", error, [write(topic, "")])


def may_not_look(topics: Iterable[str]) -> None:
    """Say of which real topics Kafka does not tell this user whether they are there."""
    for topic in topics:
        _LOGGER.warning(
            "Kafka does not tell this producer whether there is a topic %s: grant its user Describe on the topic %s, "
            "or set missing_topic to 'ignore'.",
            *(topic, topic),
        )
