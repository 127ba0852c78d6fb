"""Half messages, ops and what follows from them as plain records, and the way to columns and back."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from state import (
    ANYWHERE,
    BROKEN_FIELDS,
    HALF_FIELDS,
    OP_FIELDS,
    UNDECIDED,
    USAGE_COLUMNS,
    Allowance,
    Arrivals,
    Evaluation,
    Event,
    OpenByTopic,
    OpenOf,
    OutcomeKind,
    Policy,
    Rows,
    RunLimits,
    Segment,
    State,
    Tallies,
    Tally,
    Usage,
    Usages,
    answer_told,
    evaluate,
    lane_checked,
    segment_from_bytes,
    segment_to_bytes,
    status_pause_ms,
    summed,
)
from state.outcome_reading import parked_for
from state.rows import Fields, objects

OP_EVENTS = {
    "commit": Event.COMMIT,
    "rollback": Event.ROLLBACK,
    "unknown": Event.UNKNOWN,
    "check_unknown": Event.CHECK_UNKNOWN,
    "check_unreachable": Event.CHECK_UNREACHABLE,
    "check_commit": Event.CHECK_COMMIT,
    "check_rollback": Event.CHECK_ROLLBACK,
    "operator_commit": Event.OPERATOR_COMMIT,
    "operator_rollback": Event.OPERATOR_ROLLBACK,
    "resume": Event.RESUME,
    "redeliver": Event.REDELIVER,
    "delivered": Event.DELIVERED,
}
"""What an op can say, in the words of these tests."""

HALF_EVENTS = {"": Event.HALF, "commit": Event.HALF_COMMIT, "park": Event.HALF_PARK}
"""What a half message can say of itself."""


@dataclass(frozen=True)
class Half:
    """A half message."""

    offset: int = 0
    transaction_id: str = "tx"
    group: str = "orders"
    topic: str = "paid"
    partition: int = -1
    key: bytes | None = b"key"
    value: bytes | None = b"value"
    headers: str | None = None
    immunity_ms: int = -1
    check_max: int = -1
    deliver_at_ms: int = -1
    left_out: int = -1
    lane: int = -1
    lane_name: str | None = None
    says: str = ""
    """A key of ``HALF_EVENTS``."""
    held: int = -1


@dataclass(frozen=True)
class Op:
    """An op; ``says`` is a key of ``OP_EVENTS``."""

    says: str = "commit"
    half_offset: int = 0
    op_offset: int = 0
    transaction_id: str = "tx"
    group: str = "orders"
    source: str = "producer"
    key: bytes | None = None
    value: bytes | None = b""
    headers: str | None = None
    time_ms: int = -1
    settled: int = 0


@dataclass(frozen=True)
class Broken:
    """A record that breaks the protocol."""

    topic: str = "cb.op"
    offset: int = 0
    key: bytes | None = None
    value: bytes | None = None
    headers: str | None = None
    reason: str = "cb-id is missing"
    left_out: int = -1


class Message(NamedTuple):
    """What is written of a half message that is delivered, parked or asked about."""

    offset: int
    transaction_id: str
    group: str
    topic: str
    partition: int
    key: bytes | None
    value: bytes | None
    headers: str | None
    ingested_ms: int
    left_out: int = -1


class Check(NamedTuple):
    message: Message
    attempt: int
    check_max: int
    left_out: int = -1
    lane: str = ""


class Parked(NamedTuple):
    message: Message
    attempts: int
    reason: str
    answer: str = ""


class Ended(NamedTuple):
    """What is written of a message that waits for an operator no longer."""

    offset: int
    transaction_id: str
    group: str
    topic: str
    became: str


class Rejected(NamedTuple):
    """An op that changed nothing."""

    half_offset: int
    op_offset: int
    transaction_id: str
    group: str
    action_and_source: str
    key: bytes | None
    value: bytes | None
    headers: str | None
    reason: str


class Status(NamedTuple):
    """A row of the status topic; ``attempt`` and ``check_max`` are -1 when the transaction is over."""

    offset: int
    transaction_id: str
    group: str
    topic: str
    ingested_ms: int
    attempt: int
    check_max: int
    reason: str = ""
    """What came of the last check; empty: not answered yet."""
    pause_ms: int = -1
    """Until the next check."""
    asked_ago_ms: int = -1
    """When the last check was asked for; -1: now, so that nothing was answered."""
    misses: int = 0
    remark: bytes | None = None


@dataclass
class Said:
    """What one step of a segment says, and what it leaves."""

    delivered: list[Message] = field(default_factory=list)
    bundles: list[Message] = field(default_factory=list)
    """Messages delivered whose value is several."""
    by_lane: list[Message] = field(default_factory=list)
    """Those that lanes have delivered, and tables get."""
    checks: list[Check] = field(default_factory=list)
    parked: list[Parked] = field(default_factory=list)
    unparked: list[Ended] = field(default_factory=list)
    rejected: list[Rejected] = field(default_factory=list)
    broken: list[Broken] = field(default_factory=list)
    tallies: Tallies = field(default_factory=Counter)
    statuses: list[Status] = field(default_factory=list)
    ended: list[Status] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    timer_ms: int | None = None
    ledger: dict[int, str] = field(default_factory=dict)
    """State of each offset that has one, in lower case; empty when the segment is forgotten."""
    forgotten: bool = False
    usages: Usages = field(default_factory=dict)
    """What groups have under way, all changes that were said so far together."""

    def in_any_order(self) -> dict[str, Any]:
        """The same with lists sorted, to compare where order means nothing."""
        lists = {name: sorted(made, key=repr) for name, made in vars(self).items() if isinstance(made, list)}
        return {
            **{name: made for name, made in vars(self).items() if name != "tallies"},
            **lists,
            "counts": {name: count for name, count in self.counts.items() if count},
        }

    def add(self, other: "Said") -> None:
        """What a later step said; its timer and ledger replace those of this one."""
        for name, value in vars(other).items():
            mine = getattr(self, name)
            setattr(self, name, mine + value if isinstance(value, list | Counter) else value)


def _rows(fields: Fields, records: Sequence[Mapping[str, Any]]) -> Rows:
    columns = {name: [record[name] for record in records] for name in fields}
    return Rows({n: objects(v) if fields[n] is object else np.array(v, dtype=fields[n]) for n, v in columns.items()})


def _action(op: Op) -> str:
    return "commit" if op.says == "delivered" else op.says


def arrivals(halves: Sequence[Half] = (), ops: Sequence[Op] = (), broken: Sequence[Broken] = ()) -> Arrivals:
    """Columns of these records."""
    return Arrivals(
        halves=_rows(HALF_FIELDS, [{**vars(half), "event": HALF_EVENTS[half.says]} for half in halves]),
        ops=_rows(OP_FIELDS, [{**vars(op), "event": OP_EVENTS[op.says], "action": _action(op)} for op in ops]),
        broken=_rows(BROKEN_FIELDS, [vars(record) for record in broken]),
    )


class Driver:
    """One segment, step by step, in records."""

    def __init__(self, policy: Policy, *, stored: bool = False, limits: RunLimits | None = None) -> None:
        self.policy = policy
        self.limits = limits
        """Of each step."""
        self.stored = stored
        """Whether the state goes through its bytes after each step."""
        self.segment = Segment.new(0, policy)
        self.usages: Usages = {}
        self.reach = ANYWHERE
        self.open: OpenByTopic = {}
        self.unanswered: Counter[str] = Counter()
        """Of each group, the checks that have no answer yet."""

    def step(self, now_ms: int, *came: Half | Op | Broken) -> Said:
        """Let one batch of records come, in this order."""
        batch = arrivals(
            [record for record in came if isinstance(record, Half)],
            [record for record in came if isinstance(record, Op)],
            [record for record in came if isinstance(record, Broken)],
        )
        result = evaluate(self.segment, batch, now_ms, self.policy, Allowance(self.limits), self.reach)
        said = _said(result.outcomes)
        said.usages = self.usages = {name: u for name, u in summed([self.usages, said.usages]).items() if any(u)}
        self._refuse_wrong_tallies(said)
        self._learn_open(result)
        said.timer_ms = result.timer_ms
        said.forgotten = result.segment is None
        self.segment = result.segment or Segment.new(0, self.policy)
        if self.stored:
            self.segment = segment_from_bytes(segment_to_bytes(self.segment))
        states = enumerate(self.segment.ledger.tolist())
        said.ledger = {place: State(state).name.lower() for place, state in states if state != State.ABSENT}
        return said

    def _refuse_wrong_tallies(self, said: Said) -> None:
        """No group has more answers than questions, at any time."""
        for tally, number in said.tallies.items():
            if tally.name in {"checked", *ANSWERS}:
                self.unanswered[tally.group] += number if tally.name == "checked" else -number
        assert all(number >= 0 for number in self.unanswered.values()), self.unanswered
        asked = sum(number for tally, number in said.tallies.items() if tally.name == "checked")
        assert asked >= said.counts["checked"]

    def _learn_open(self, result: Evaluation) -> None:
        """What is said to be open, all changes together, is what is open."""
        kind = result.outcomes["kind"] == OutcomeKind.OPEN
        if kind.any():
            names = ("group", "topic", "attempt", "ingested_ms")
            rows = zip(*(result.outcomes[name][kind].tolist() for name in names), strict=True)
            self.open = {(group, topic): OpenOf(number, oldest) for group, topic, number, oldest in rows if number}
        found: OpenByTopic = {}
        if result.segment is not None:
            messages = result.segment.messages
            for place, *key, oldest in zip(
                *(messages[name].tolist() for name in ("offset", "group", "topic", "ingested_ms")), strict=True
            ):
                if State(result.segment.ledger[place]) in UNDECIDED:
                    one = OpenOf(1, oldest)
                    found[key[0], key[1]] = found[key[0], key[1]].plus(one) if tuple(key) in found else one
        assert self.open == found


def _said(outcomes: Rows) -> Said:
    said = Said()
    for index in range(outcomes.count):
        row = {name: outcomes[name][index] for name in outcomes}
        row = {name: value.item() if isinstance(value, np.generic) else value for name, value in row.items()}
        _ADD[OutcomeKind(row["kind"])](said, row)
    return said


def _message(row: Mapping[str, Any]) -> Message:
    return Message(row["half_offset"], *(row[name] for name in Message._fields[1:]))


def _checked(row: Mapping[str, Any]) -> Message:
    return _message(row)._replace(left_out=-1)  # of a check it is the value's


def _status(row: Mapping[str, Any]) -> Status:
    told = answer_told(row)
    names = ("transaction_id", "group", "topic", "ingested_ms", "attempt", "check_max", "reason")
    status = Status(row["half_offset"], *(row[name] for name in names))._replace(pause_ms=status_pause_ms(row))
    if told is None:
        return status
    return status._replace(asked_ago_ms=told.asked_ago_ms, misses=told.misses, remark=row["value"])


def _ended(row: Mapping[str, Any]) -> Ended:
    return Ended(*(row[name] for name in ("half_offset", "transaction_id", "group", "topic", "reason")))


ANSWERS = ("check_commit", "check_rollback", "check_unknown", "check_unreachable")
"""Tallies of answers to checks."""


def _rejected(row: Mapping[str, Any]) -> Rejected:
    words = [row[name] for name in ("transaction_id", "group", "topic", "key", "value", "headers", "reason")]
    return Rejected(row["half_offset"], row["ingested_ms"], *words)


def _broken(row: Mapping[str, Any]) -> Broken:
    return Broken(row["topic"], row["half_offset"], row["key"], row["value"], row["headers"], row["reason"])


def _count(said: Said, row: Mapping[str, Any]) -> None:
    if row["attempt"] == -1:
        said.counts[row["reason"]] += row["half_offset"]
    else:
        said.tallies[Tally(row["reason"], row["group"], row["attempt"])] += row["half_offset"]


_ADD: dict[OutcomeKind, Any] = {
    OutcomeKind.DELIVER: lambda said, row: said.delivered.append(_message(row)),
    OutcomeKind.DELIVER_BUNDLE: lambda said, row: said.bundles.append(_message(row)),
    OutcomeKind.CHECK: lambda said, row: said.checks.append(
        Check(_checked(row), row["attempt"], row["check_max"], row["left_out"], lane_checked(row))
    ),
    OutcomeKind.PARK: lambda said, row: said.parked.append(Parked(_message(row), row["attempt"], *parked_for(row))),
    OutcomeKind.PARK_END: lambda said, row: said.unparked.append(_ended(row)),
    OutcomeKind.REJECT_OP: lambda said, row: said.rejected.append(_rejected(row)),
    OutcomeKind.REJECT_RECORD: lambda said, row: said.broken.append(_broken(row)),
    OutcomeKind.STATUS: lambda said, row: said.statuses.append(_status(row)),
    OutcomeKind.STATUS_END: lambda said, row: said.ended.append(_status(row)),
    OutcomeKind.COUNT: _count,
    OutcomeKind.OPEN: lambda _said, _row: None,
    OutcomeKind.BY_LANE: lambda said, row: said.by_lane.append(_message(row)),
    OutcomeKind.BY_LANE_BUNDLE: lambda said, row: said.by_lane.append(_message(row)),
    OutcomeKind.USAGE: lambda said, row: said.usages.update(
        {row["group"]: Usage(*(row[name] for name in USAGE_COLUMNS))}
    ),
}
