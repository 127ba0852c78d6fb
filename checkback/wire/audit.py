"""The records of ``cb.audit``: what was decided by hand, which policy holds, what was refused. No I/O."""

import json
from enum import StrEnum
from typing import Any, NamedTuple, Self

from checkback.exceptions import ProtocolError
from checkback.wire.json_reading import read_object

_MOST_TEXT = 2_000


class AuditKind(StrEnum):
    """What it tells of."""

    DECISION = "decision"
    """An operator has decided transactions."""
    POLICY = "policy"
    """From a batch on this access policy holds."""
    REFUSED = "refused"
    """The access policy has refused records of a batch."""


class AuditRecord(NamedTuple):
    """One record; its time is Kafka's."""

    kind: AuditKind
    who: str
    """As they call themselves: a person, a job, a producer group."""
    what: str
    key: str = ""
    """Id of the key that the decision is signed with; empty: none."""
    group: str = ""
    """The producer group; several with a comma."""
    topic: str = ""
    number: int = 1
    """Transactions decided, or records refused."""
    halves: tuple[str, ...] = ()
    """Places of the half messages that were decided."""
    why: str = ""

    @property
    def value(self) -> bytes:
        """Of its record: a JSON object, without what is empty."""
        said = {name: content for name, content in self._asdict().items() if content not in ("", ())}
        return json.dumps(said, ensure_ascii=False).encode(errors="replace")

    @classmethod
    def parse(cls, value: bytes | None) -> Self:
        """Read the value of a record.

        Raises:
            ProtocolError: it is none of these.
        """
        try:
            said = read_object(value or b"")
            texts = {name: _text(said, name) for name in ("who", "what", "key", "group", "topic", "why")}
            halves = tuple(str(one)[:_MOST_TEXT] for one in said.get("halves", ()))
            return cls(AuditKind(said["kind"]), number=_number(said), halves=halves, **texts)
        except (ValueError, KeyError, TypeError) as error:
            raise ProtocolError(f"It is no record of the audit topic: {error!r:.200}.") from error


def _text(said: dict[str, Any], name: str) -> str:
    found = said.get(name, "")
    if not isinstance(found, str):
        raise TypeError(name)
    return found[:_MOST_TEXT]


def _number(said: dict[str, Any]) -> int:
    found = said.get("number", 1)
    if not isinstance(found, int) or isinstance(found, bool) or not 0 <= found < 2**63:
        raise ValueError("number")
    return found
