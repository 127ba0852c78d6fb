"""Operators' decisions, and their receipts as ``cb.audit`` keeps them."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Self

from checkback.exceptions import ProtocolError
from checkback.wire.json_reading import number_of, read_object
from checkback.wire.lanes import LaneFact
from checkback.wire.protocol import Action, HalfPosition


class Chosen(NamedTuple):
    """A transaction, or a parked message, that an operator decides about."""

    half: HalfPosition
    transaction_id: str
    group: str
    topic: str
    actions: tuple[Action, ...] = ()
    """What is of use for it; not known of a receipt from before a restart."""
    contested: bool = False
    """Whether only its real topic tells if its lane has delivered it."""

    @property
    def name(self) -> str:
        """What names it in forms and in the API's bodies: its place and its id."""
        return f"{self.half} {self.transaction_id}"


class OperatorDecision(NamedTuple):
    """What an operator wants done."""

    action: Action
    chosen: tuple[Chosen, ...]
    who: str
    why: str
    seen: LaneFact | None = None
    """What was seen in the real topics, for those of which nobody else can know."""


@dataclass
class Receipt:
    """What was done, and what is known of its ops since."""

    name: str
    """A random text; before it the place of its record, if it has one."""
    decision: OperatorDecision
    time_ms: int
    by_lane: frozenset[HalfPosition] = frozenset()
    """These are committed, which was not asked for: their lanes have delivered them."""
    filed_ms: int = 0
    """Kafka's time of its record, because the job's clock may differ by minutes; 0: it has none."""
    settled: set[str] = field(default_factory=set)
    """Names of those of which it is known whether the job rejected the op."""
    rejected: dict[str, str] = field(default_factory=dict)
    """Why the job rejected the op, by name: another decision came first."""
    reached: Mapping[int, int] = field(default_factory=dict)
    """By partition of ``cb.rejected``, how far it was read."""

    def to_record(self) -> bytes:
        """The value of its record in ``cb.audit``."""
        action, chosen, who, why, _ = self.decision
        body = {
            "kind": "receipt",
            "receipt": self.name,
            "time_ms": self.time_ms,
            "what": action,
            "who": who,
            "why": why,
            "transactions": [[str(one.half), one.transaction_id, one.group, one.topic] for one in chosen],
            "by_lane": [str(half) for half in self.by_lane],
        }
        return json.dumps(body, ensure_ascii=False).encode(errors="replace")

    @classmethod
    def from_record(cls, name: str, value: bytes | None, filed_ms: int) -> Self | None:
        """Read the value of the record of the receipt with this name; None if it is something else."""
        try:
            body = read_object(value)
            if body["receipt"] != name.rpartition(":")[2]:
                return None
            chosen = tuple(
                Chosen(HalfPosition.parse(str(half)), str(transaction_id), str(group), str(topic))
                for half, transaction_id, group, topic in body["transactions"]
            )
            decision = OperatorDecision(Action(body["what"]), chosen, str(body["who"]), str(body["why"]))
            by_lane = frozenset(HalfPosition.parse(str(half)) for half in body["by_lane"])
            return cls(name, decision, number_of(body, "time_ms"), by_lane, filed_ms)
        except (ValueError, KeyError, TypeError, ProtocolError):
            return None
