"""The wire protocol, version 1: every topic name, header name and limit, and how records are built.

The one place that knows them; ``docs/protocol.md`` specifies them for clients in other languages.
Headers are ``(str, bytes)`` pairs in the order in which they are written.
"""

import json
import re
from base64 import b64decode, b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple, Self

from checkback.exceptions import ProtocolError

VERSION = 1

ID = "cb-id"
GROUP = "cb-group"
TOPIC = "cb-topic"
PARTITION = "cb-partition"
IMMUNITY_MS = "cb-immunity-ms"
CHECK_MAX = "cb-check-max"
HEADER_VERSION = "cb-version"
HALF = "cb-half"
ACTION = "cb-action"
SOURCE = "cb-source"
REASON = "cb-reason"
KEY = "cb-key"
ATTEMPT = "cb-attempt"
BORN_MS = "cb-born-ms"
FROM = "cb-from"

RESERVED_PREFIX = "cb-"
MAX_ID_BYTES = 64
MAX_GROUP_BYTES = 255
MAX_TOPIC_BYTES = 249
MAX_PARTITION_DIGITS = 9
MAX_DIGITS = 19
_TOPIC = re.compile(r"[a-zA-Z0-9._-]+")

Headers = Sequence[tuple[str, bytes]]


class Action(StrEnum):
    """What an op says of its half message."""

    COMMIT = "commit"
    ROLLBACK = "rollback"
    UNKNOWN = "unknown"
    UNREACHABLE = "unreachable"


class Source(StrEnum):
    """Who wrote an op."""

    PRODUCER = "producer"
    CHECK = "check"
    OPERATOR = "operator"


@dataclass(frozen=True)
class Topics:
    """Names of Checkback's own topics, all under one prefix (``cb.`` unless the settings say otherwise)."""

    prefix: str = "cb."

    @property
    def half(self) -> str:
        """Half messages, as producers write them."""
        return f"{self.prefix}half"

    @property
    def op(self) -> str:
        """Ops; as many partitions as :attr:`half`."""
        return f"{self.prefix}op"

    @property
    def check(self) -> str:
        """One record for each check to be made."""
        return f"{self.prefix}check"

    @property
    def parked(self) -> str:
        """Half messages given up on."""
        return f"{self.prefix}parked"

    @property
    def rejected(self) -> str:
        """Records that break the protocol, whole, with a reason."""
        return f"{self.prefix}rejected"

    @property
    def status(self) -> str:
        """Compacted: transactions that were checked and are still open."""
        return f"{self.prefix}status"

    @property
    def producers(self) -> str:
        """Compacted: check endpoints of producer groups."""
        return f"{self.prefix}producers"

    @property
    def progress(self) -> str:
        """Empty; its consumer-group offsets say which batches are in."""
        return f"{self.prefix}progress"

    def all(self) -> tuple[str, ...]:
        """Every topic of Checkback's own."""
        return (
            *(self.half, self.op, self.check, self.parked),
            *(self.rejected, self.status, self.producers, self.progress),
        )


class HalfPosition(NamedTuple):
    """Where a half message lies: its partition and offset in the half topic."""

    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.partition}:{self.offset}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read ``partition:offset``.

        Raises:
            ProtocolError: not two non-negative decimal numbers.
        """
        partition, colon, offset = text.partition(":")
        if not (colon and partition.isascii() and partition.isdigit() and offset.isascii() and offset.isdigit()):
            raise ProtocolError(f"{HALF} must be 'partition:offset' of the half message, not {text!r}.")
        if max(len(partition), len(offset)) > MAX_DIGITS:
            raise ProtocolError(f"{HALF} must have at most {MAX_DIGITS} digits in a number.")
        position = cls(int(partition), int(offset))
        if str(position) != text:
            raise ProtocolError(f"{HALF} must have no leading zeros, not {text!r}.")
        return position


def half_headers(
    transaction_id: str, group: str, topic: str, application: Headers = (), *, partition: int | None = None
) -> list[tuple[str, bytes]]:
    """Headers of a half message: ours first, in the order the query decodes fastest, then the application's.

    Raises:
        ProtocolError: an id, group or topic that is empty or too long, or an application header that uses
            the reserved prefix.
    """
    _bounded(ID, transaction_id, MAX_ID_BYTES)
    _bounded(GROUP, group, MAX_GROUP_BYTES)
    _bounded(TOPIC, topic, MAX_TOPIC_BYTES)
    if not _TOPIC.fullmatch(topic) or topic in {".", ".."}:
        raise ProtocolError(f"{TOPIC} must be a name Kafka allows (a-z A-Z 0-9 . _ -), not {topic!r}.")
    for name, _ in application:
        if name.startswith(RESERVED_PREFIX):
            raise ProtocolError(f"Header {name!r}: names beginning with {RESERVED_PREFIX!r} are Checkback's own.")
    ours = [(ID, transaction_id.encode()), (GROUP, group.encode()), (TOPIC, topic.encode())]
    if partition is not None:
        if not 0 <= partition < 10**MAX_PARTITION_DIGITS:
            raise ProtocolError(
                f"{PARTITION} must have 1 to {MAX_PARTITION_DIGITS} digits and no sign, got {partition}."
            )
        ours.append((PARTITION, str(partition).encode()))
    return [*ours, *application]


def op_headers(
    transaction_id: str, group: str, half: HalfPosition, action: Action, source: Source
) -> list[tuple[str, bytes]]:
    """Headers of an op, in the order the query decodes fastest."""
    return [
        (ID, transaction_id.encode()),
        (GROUP, group.encode()),
        (HALF, str(half).encode()),
        (ACTION, action.encode()),
        (SOURCE, source.encode()),
    ]


@dataclass(frozen=True)
class CheckRequest:
    """One question to a producer group: what became of this transaction?"""

    transaction_id: str
    group: str
    topic: str
    key: bytes | None
    value: bytes | None
    headers: Headers
    half: HalfPosition
    attempt: int
    check_max: int
    born_ms: int
    """When the half message was taken in by the query, in ms since 1970."""

    def to_json(self) -> dict[str, Any]:
        """Body of the check request over HTTP; bytes in base64."""
        return {
            "version": VERSION,
            "id": self.transaction_id,
            "group": self.group,
            "topic": self.topic,
            "key": _base64(self.key),
            "payload": _base64(self.value),
            "headers": [[name, _base64(value)] for name, value in self.headers],
            "half": str(self.half),
            "attempt": self.attempt,
            "check_max": self.check_max,
            "born_ms": self.born_ms,
        }

    @classmethod
    def from_json(cls, body: dict[str, Any]) -> Self:
        """Read the body of a check request.

        Raises:
            ProtocolError: a field is missing or of a wrong type, or the version is a later one.
        """
        try:
            if body.get("version", VERSION) > VERSION:
                raise ProtocolError(f"This check request is of version {body['version']}, we speak {VERSION}.")
            return cls(
                transaction_id=str(body["id"]),
                group=str(body["group"]),
                topic=str(body["topic"]),
                key=_bytes(body["key"]),
                value=_bytes(body["payload"]),
                headers=[(str(name), _bytes(value) or b"") for name, value in body["headers"]],
                half=HalfPosition.parse(body["half"]),
                attempt=int(body["attempt"]),
                check_max=int(body["check_max"]),
                born_ms=int(body["born_ms"]),
            )
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise ProtocolError(f"Not a check request: {error!r}.") from error

    def to_record(self) -> tuple[bytes, bytes | None, list[tuple[str, bytes]]]:
        """Key, value and headers of the record in ``cb.check``."""
        ours = [
            (ID, self.transaction_id.encode()),
            (GROUP, self.group.encode()),
            (TOPIC, self.topic.encode()),
            (HALF, str(self.half).encode()),
            (ATTEMPT, str(self.attempt).encode()),
            (CHECK_MAX, str(self.check_max).encode()),
            (BORN_MS, str(self.born_ms).encode()),
        ]
        if self.key is not None:
            ours.append((KEY, self.key))
        return self.transaction_id.encode(), self.value, [*ours, *self.headers]

    @classmethod
    def from_record(cls, value: bytes | None, headers: Headers) -> Self:
        """Read a record of ``cb.check``.

        Raises:
            ProtocolError: a header is missing or unreadable.
        """
        ours = {name: content for name, content in headers if name.startswith(RESERVED_PREFIX)}
        try:
            return cls(
                transaction_id=ours[ID].decode(),
                group=ours[GROUP].decode(),
                topic=ours[TOPIC].decode(),
                key=ours.get(KEY),
                value=value,
                headers=[(name, content) for name, content in headers if not name.startswith(RESERVED_PREFIX)],
                half=HalfPosition.parse(ours[HALF].decode()),
                attempt=int(ours[ATTEMPT]),
                check_max=int(ours[CHECK_MAX]),
                born_ms=int(ours[BORN_MS]),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ProtocolError(f"Not a record of a check: {error!r}.") from error


@dataclass(frozen=True)
class Announcement:
    """A producer's check endpoint, as a record of ``cb.producers`` says it."""

    group: str
    instance: str
    url: str
    time_ms: int
    """The announcing process's clock, for people to read; nothing is decided by it."""

    def to_record(self) -> tuple[bytes, bytes]:
        """Key and value of the record."""
        body = {"group": self.group, "instance": self.instance, "url": self.url, "time_ms": self.time_ms}
        return announcement_key(self.group, self.instance), json.dumps(body).encode()

    @classmethod
    def from_record(cls, value: bytes) -> Self:
        """Read a record's value.

        Raises:
            ProtocolError: not JSON, or a field is missing.
        """
        try:
            body = json.loads(value)
            return cls(str(body["group"]), str(body["instance"]), str(body["url"]), int(body["time_ms"]))
        except (KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
            raise ProtocolError(f"Not an announcement of a producer: {error!r}.") from error


def announcement_key(group: str, instance: str) -> bytes:
    """Key of a producer's announcement; a record with it and no value takes the announcement back."""
    return f"{group}/{instance}".encode()


def _bounded(name: str, text: str, most: int) -> None:
    if not 0 < len(text.encode()) <= most:
        raise ProtocolError(f"{name} must have 1 to {most} bytes in UTF-8, got {len(text.encode())}.")


def _base64(content: bytes | None) -> str | None:
    return None if content is None else b64encode(content).decode()


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else b64decode(text, validate=True)
