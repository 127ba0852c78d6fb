"""The records of ``cb.control``: what a running group is told to do, and what its consumers have done. No Kafka.

``docs/protocol.md`` specifies them.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, Self

from checkback.consumer.listener import ReceivedMessage, TopicPartition
from checkback.exceptions import ProtocolError
from checkback.wire.json_reading import read_object

_RESET, _DONE = "reset", "done"
_MAX_OFFSET = 2**63 - 1
_MAX_PARTITION = 2**31 - 1
_MAX_PARTITION_DIGITS = 10
_MAX_TEXT = 1_000


class ControlRecords(Protocol):
    """A :class:`~checkback.consumer.resetting.control_topic.ControlTopic` that has gone to its end."""

    def read(self, seconds: float) -> list[ReceivedMessage]:
        """What has come, or comes within ``seconds``."""

    def write(self, records: Mapping[bytes, bytes | None]) -> None:
        """Write records, by key."""


@dataclass(frozen=True)
class ResetOrder:
    """A group is to go on at other offsets.

    It is written again and again, with those partitions that nobody has reported, by the command that waits for them.
    """

    id: str
    """The same in each repetition; no other order has it."""
    group: str
    topic: str
    offsets: Mapping[int, int]
    """By partition."""

    @property
    def key(self) -> bytes:
        """Of its record: a later order for the same group and topic takes its place."""
        return f"{_RESET}/{self.topic}/{self.group}".encode()

    @property
    def value(self) -> bytes:
        """Of its record."""
        said = {"id": self.id, "group": self.group, "topic": self.topic, "offsets": self.offsets}
        return json.dumps(said, ensure_ascii=False).encode()

    def by_partition(self) -> dict[TopicPartition, int]:
        """The offsets, by partition."""
        return {TopicPartition(self.topic, one): offset for one, offset in self.offsets.items()}

    @classmethod
    def parse(cls, value: bytes) -> Self:
        """Read the value of a record.

        Raises:
            ProtocolError: it is not what this page of the protocol says.
        """
        said = _object(value)
        offsets = said.get("offsets")
        if not isinstance(offsets, dict) or not all(map(_is_partition, offsets)):
            raise ProtocolError("offsets must be an object with numbers of partitions as names.")
        found = {int(name): _number(offsets, name) for name in offsets}
        return cls(_text(said, "id"), _text(said, "group"), _text(said, "topic"), found)


@dataclass(frozen=True)
class ResetDone:
    """A consumer has carried out an order for one of its partitions."""

    id: str
    """The order's."""
    partition: int
    before: int
    """The next offset that it would have stored."""
    after: int
    consumer: str
    """Which one, for people."""

    @property
    def key(self) -> bytes:
        """Of its record."""
        return f"{_DONE}/{self.id}/{self.partition}".encode()

    @property
    def value(self) -> bytes:
        """Of its record."""
        return json.dumps(vars(self), ensure_ascii=False).encode()

    @classmethod
    def parse(cls, value: bytes) -> Self:
        """Read the value of a record.

        Raises:
            ProtocolError: it is not what this page of the protocol says.
        """
        said = _object(value)
        partition, before, after = (_number(said, name) for name in ("partition", "before", "after"))
        return cls(_text(said, "id"), partition, before, after, _text(said, "consumer"))


def is_order(key: bytes | None) -> bool:
    """Whether a record with this key is an order, or takes one back."""
    return key is not None and key.startswith(f"{_RESET}/".encode())


def is_done(key: bytes | None) -> bool:
    """Whether a record with this key says that an order was carried out."""
    return key is not None and key.startswith(f"{_DONE}/".encode())


def _object(value: bytes) -> dict[str, Any]:
    try:
        return read_object(value)
    except ValueError as error:
        raise ProtocolError(f"A record of the control topic must be a JSON object: {error!s:.200}.") from error


def _is_partition(name: str) -> bool:
    digits = name.isascii() and name.isdigit() and len(name) <= _MAX_PARTITION_DIGITS  # int() refuses thousands
    return digits and int(name) <= _MAX_PARTITION


def _text(said: Mapping[str, Any], name: str) -> str:
    found = said.get(name)
    if not isinstance(found, str) or not 0 < len(found) <= _MAX_TEXT:
        raise ProtocolError(f"{name} must be text of 1 to {_MAX_TEXT} characters, not {found!r:.80}.")
    return found


def _number(said: Mapping[str, Any], name: str) -> int:
    found = said.get(name)
    if not isinstance(found, int) or isinstance(found, bool) or not 0 <= found <= _MAX_OFFSET:
        raise ProtocolError(f"{name} must be a number from 0, not {found!r:.80}.")
    return found
