"""What a step of a segment has to say to the world: rows to write, and counts.

Every record that comes is in the end in just one of the counts ``half``, ``retried``, ``applied``, ``without_effect``,
``duplicate`` and ``rejected``; an op whose half message has not come is in none of them as long as it waits.
"""

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from checkback.wire.lanes import LaneFact
from checkback.wire.protocol import CONTESTED
from state.content import value_bytes
from state.open_by_topic import REST, OpenByTopic, OpenOf
from state.outcome_kinds import TIMER, TIMER_SLOT_MS, USAGE_COLUMNS, OutcomeKind
from state.policy import Policy
from state.rows import BUNDLE, NO_LANE, OUTCOME_FIELDS, Column, Rows, objects
from state.table import FOR_OPERATORS, UNDECIDED, Effect, EffectCodes, Event, EventCodes, State, StateCodes
from state.usage import Usages

CHECK_PAYLOAD_BYTES = 64 * 1024
"""A check has the value of its half message up to so many bytes: it may be asked for often, and by many."""
CONFLICT_REASON = "it contradicts the decision already taken for its half message"
FOREIGN_REASON = "its cb-id or cb-group is not that of the half message it points at"
LATE_REASON = "its check immunity is over: only a check decides now (late_end_transaction)"
UNSETTLED_REASON = "its half message is of a lane, and it does not say what that has done (cb-delivered, cb-settled)"
LANELESS_REASON = "it says that a lane has delivered its half message, which names none"
UNCHECKABLE_REASON = "its half message is contested: no check can find out what its lane has done, an operator decides"
_REFUSED = {
    Event.FOREIGN: FOREIGN_REASON,
    Event.LATE: LATE_REASON,
    Event.UNSETTLED: UNSETTLED_REASON,
    Event.LANELESS: LANELESS_REASON,
    Event.CONTESTED: UNCHECKABLE_REASON,
}
_COUNTED = {
    Effect.DISCARD: "rolled_back",
    Effect.DELAY: "delayed",
    Effect.PARK: "parked",
    Effect.RESUME: "resumed",
    Effect.FORGET: "abandoned",
}
_REASONS = {
    Event.EXHAUSTED: "checked in vain as often as check_max allows",
    Event.AGED: "undecided for longer than the age limit",
    Event.HALF_PARK: "",  # the half message says why
    Event.HALF_CONTESTED: CONTESTED,
}
_ENDS = {
    Effect.DELIVER: "committed",
    Effect.BY_LANE: "committed",
    Effect.DELAY: "committed",
    Effect.DISCARD: "rolled back",
    Effect.RESUME: "resumed",
    Effect.FORGET: "abandoned",
}
"""What a record of ``cb.parked`` says of a message that waits for an operator no longer."""


_CHECK_RESULTS = {
    Event.CHECK_COMMIT: "check_commit",
    Event.CHECK_ROLLBACK: "check_rollback",
    Event.CHECK_UNKNOWN: "check_unknown",
    Event.CHECK_UNREACHABLE: "check_unreachable",
}
_CHECK_EVENTS = np.array(list(_CHECK_RESULTS), dtype=np.uint8)
WAIT_EDGES_MS = np.unique(np.geomspace(1, 8 * 86_400_000, 120).round().astype(np.int64))
"""int64[n]: of what is measured, the size of a wait is the first of these that it does not exceed. Each is a
fifth more than the one before."""
SUM = -2
"""In place of a size: of all sizes together."""
STATUS_PAUSE = "partition"
"""The column of a status row that says in how many ms the next check comes, for want of another use."""
STATUS_ASKED_AGO = "left_out"
"""Likewise: how many ms before an answer its check was asked for; -1 in a row that no answer has made."""
STATUS_MISSES = "headers"
"""Likewise: for how many checks in a row nobody could be asked, in digits."""
CHECK_LANE = "reason"
"""The column of a check that names its half message's lane, likewise; empty: none."""
DELIVER_UNCOUNTED = "attempt"
"""The column of a delivery that is 1 if no usage has counted the message yet."""
ANSWER_END = "\n"
"""In the reason of a row that parks, it ends the last answer; no reason has it."""
STATUS_REMARK_BYTES = 512
"""So much of an answer's remark is told at most."""
_ANSWER_CHARACTERS = 200
"""So much of the last answer is kept for the day on which its message is parked."""
_MOST_PAUSE_MS = 2**31 - 1


class Tally(NamedTuple):
    """What a count is of."""

    name: str
    group: str
    """The producer group; empty: not told apart by it."""
    size: int
    """Index into ``WAIT_EDGES_MS``, len(WAIT_EDGES_MS) for longer ones; or ``SUM``."""


Tallies = Counter[Tally]


class Collector:
    """Gathers the outcomes of one evaluation; :meth:`rows` gives them in the order they are to be written."""

    def __init__(self, *, tables: bool = False) -> None:
        self._tables = tables
        """Whether rows are wanted of what lanes have delivered."""
        self._parts: list[Rows] = []
        self._last: list[Rows] = []
        """What is to be written after all else: the sink must know by then whether a topic took what was delivered."""
        self._counts: Counter[str] = Counter()
        self._tallies: Tallies = Counter()

    def broken(self, records: Rows) -> None:
        """Records that break the protocol."""
        if not records.count:
            return
        self._counts["rejected"] += records.count
        self._add(
            OutcomeKind.REJECT_RECORD,
            records.count,
            **{name: records[name] for name in ("topic", "key", "value", "headers", "left_out", "reason")},
            half_offset=records["offset"],
        )

    def count_half_messages(self, retried: Column, results: EffectCodes, repeated: EffectCodes) -> None:
        """Half messages taken in, and outcomes of those seen before; bool[n] ``retried``: the job wrote it itself."""
        self._counts["half"] += int((~retried).sum())
        self._counts["retried"] += int(retried.sum())
        self._counts["delayed"] -= int((results[retried] == Effect.DELAY).sum())  # it was committed before
        self._counts["duplicate"] += int((repeated == Effect.DUPLICATE).sum())

    def count_ops(self, ops: Rows) -> None:
        """Ops taken in."""
        self._counts["op"] += ops.count
        self._counts["unknown"] += int((ops["event"] == Event.UNKNOWN).sum())
        self._counts["check_unknown"] += int((ops["event"] == Event.CHECK_UNKNOWN).sum())
        self._counts["check_unreachable"] += int((ops["event"] == Event.CHECK_UNREACHABLE).sum())

    def count_answers(self, ops: Rows, rows: Column, states: StateCodes, results: EffectCodes) -> None:
        """Answers to checks that have an effect; ``rows[i]`` is the op that met state i.

        One more question counts if no check is outstanding: the check service asks again after *unreachable*.
        """
        events, groups = ops["event"][rows], ops["group"][rows]
        answers = np.isin(events, _CHECK_EVENTS) & np.isin(states, UNDECIDED)
        answers &= ~np.isin(results, (Effect.REJECT, Effect.DUPLICATE))
        if answers.any():
            self._by_group("checked", groups[answers & (states == State.OPEN)])
            for event, name in _CHECK_RESULTS.items():
                self._by_group(name, groups[answers & (events == event)])

    def count_judged(self, changed: Column, results: EffectCodes) -> None:
        """Ops whose half message is there: whether each changed its state, and what followed."""
        self._counts["applied"] += int(changed.sum())
        self._counts["without_effect"] += int((~changed & (results == Effect.NONE)).sum())

    def rejected_ops(self, ops: Rows, reason: str) -> None:
        """Ops that change nothing and go to ``cb.rejected``."""
        if not ops.count:
            return
        self._counts["rejected"] += ops.count
        # What the op says and its position travel in columns that an op has no other use for.
        said = ops["action"] + ("/" + ops["source"])
        delivered, settled = ops["event"] == Event.DELIVERED, ops["settled"] == 1
        for chosen, fact in ((delivered, LaneFact.DELIVERED), (settled, LaneFact.SETTLED)):
            if chosen.any():
                said = np.where(chosen, said + f"/{fact}", said)
        self._add(
            OutcomeKind.REJECT_OP,
            ops.count,
            **{name: ops[name] for name in ("transaction_id", "group", "key", "value", "headers", "half_offset")},
            topic=said,
            ingested_ms=ops["op_offset"],
            reason=np.full(ops.count, reason, dtype=object),
        )

    def repeated_claims(self, number: int) -> None:
        """Ops that say what others have said that wait like them."""
        self._counts["duplicate"] += number

    def decided(self, messages: Rows, rows: Column, results: EffectCodes, *, uncounted: bool = False) -> None:
        """Messages that a step ended or put off; ``rows[i]`` is the one that ``results[i]`` is about, -1 for none.

        ``uncounted``: they came in this batch with their own decision, so no :class:`~state.usage.Usage` has them.
        """
        delivered = np.sort(rows[results == Effect.DELIVER])  # in the order of the half topic
        if delivered.size:
            self._counts["committed"] += delivered.size
            kinds = OutcomeKind.DELIVER, OutcomeKind.DELIVER_BUNDLE
            self._whole(messages.take(delivered), *kinds, uncounted=uncounted)
        by_lane = rows[results == Effect.BY_LANE]
        if by_lane.size:
            self._counts["committed"] += by_lane.size
            self._counts["by_lane"] += by_lane.size
            if self._tables:
                self._whole(messages.take(np.sort(by_lane)), OutcomeKind.BY_LANE, OutcomeKind.BY_LANE_BUNDLE)
        ended = [delivered, by_lane]
        for outcome, name in _COUNTED.items():
            found = rows[results == outcome]
            self._counts[name] += found.size
            ended.append(found)
        over = np.sort(np.concatenate(ended))
        self._status_end(messages.take(over[messages["asked_ms"][over] >= 0]))

    def given_up(self, messages: Rows, rows: Column, events: EventCodes, results: EffectCodes) -> None:
        """Messages to be parked, among those that timers were due for."""
        chosen = results == Effect.PARK
        if chosen.any():
            parked = messages.take(rows[chosen])
            answers = objects([f"{answer}{ANSWER_END}" if answer else "" for answer in parked["answer"]])
            reasons = answers + objects([_REASONS[Event(event)] for event in events[chosen]])
            self._add(OutcomeKind.PARK, parked.count, **_message(parked), attempt=parked["attempts"], reason=reasons)

    def left_operators(self, messages: Rows, rows: Column, states: StateCodes, results: EffectCodes) -> None:
        """Of messages in these states, ``rows[i]`` in state i: those that a result takes out of operators' hands."""
        waited = np.isin(states, FOR_OPERATORS)
        if not waited.any():
            return
        left = waited & np.isin(results, list(_ENDS))
        ended = messages.take(rows[left])
        reasons = objects([_ENDS[Effect(result)] for result in results[left]])
        if ended.count:
            self._last.append(_outcomes(OutcomeKind.PARK_END, ended.count, **_identity(ended), reason=reasons))

    def refused(self, ops: Rows, events: EventCodes, results: EffectCodes) -> None:
        """Ops that changed nothing, with what each was taken for."""
        self._counts["duplicate"] += int((results == Effect.DUPLICATE).sum())
        conflicts, refused = results == Effect.CONFLICT, results == Effect.REJECT
        self._counts["conflict"] += int(conflicts.sum())
        self.rejected_ops(ops.take(conflicts), CONFLICT_REASON)
        if refused.any():
            for event, reason in _REFUSED.items():
                self.rejected_ops(ops.take(refused & (events == event)), reason)

    def checks(self, checked: Rows, first: Column, policy: Policy) -> None:
        """Messages whose producers are to be asked; bool[n] ``first``: for the first time.

        A status is written with the first one, and from then on with each answer: see :meth:`answered`.
        """
        if not checked.count:
            return
        self._counts["checked"] += checked.count
        self._by_group("checked", checked["group"])
        attempt = checked["attempts"] + 1
        numbers = {"attempt": attempt, "check_max": policy.check_max_of(checked["check_max"])}
        self._add(OutcomeKind.CHECK, checked.count, **_small_message(checked), **numbers, **_lane_of_checks(checked))
        if first.any():
            numbers = {name: column[first] for name, column in numbers.items()}
            numbers[STATUS_PAUSE] = np.full(int(first.sum()), min(policy.check_interval_ms, _MOST_PAUSE_MS))
            self._add(OutcomeKind.STATUS, int(first.sum()), **_identity(checked.take(first)), **numbers)

    def answered(self, messages: Rows, remarks: Column, now_ms: int, policy: Policy) -> None:
        """Undecided messages whose checks were answered just now, with the answers' remarks (bytes or None [n])."""
        if not messages.count:
            return
        missed = messages["misses"] > 0
        numbers = {
            "attempt": messages["attempts"] + missed,  # which one the check was
            "check_max": policy.check_max_of(messages["check_max"]),
            STATUS_PAUSE: np.clip(messages["deadline_ms"] - now_ms, 0, _MOST_PAUSE_MS),
            STATUS_ASKED_AGO: now_ms - messages["asked_ms"],
        }
        self._add(
            OutcomeKind.STATUS,
            messages.count,
            **_identity(messages),
            **numbers,
            **{STATUS_MISSES: objects([str(number) for number in messages["misses"].tolist()])},
            value=objects([(remark or b"")[:STATUS_REMARK_BYTES] for remark in remarks]),
            reason=np.where(missed, "unreachable", "unknown").astype(object),
        )

    def count(self, numbers: Mapping[str, int]) -> None:
        """Numbers by the names of their counters."""
        counts = {name: number for name, number in numbers.items() if number}
        if counts:
            self._add(
                OutcomeKind.COUNT,
                len(counts),
                reason=objects(list(counts)),
                half_offset=np.fromiter(counts.values(), np.int64, len(counts)),
            )

    def timer(self, due_ms: int) -> None:
        """When the timer of a segment is due."""
        self._tallies[Tally(TIMER, "", due_ms // TIMER_SLOT_MS)] += 1

    def measured(self, name: str, waits_ms: Column) -> None:
        """How long things took (int64[n] ms); negative ones, of clocks that disagree, count as 0."""
        if not waits_ms.size:
            return
        waits_ms = np.maximum(waits_ms, 0)
        sizes = np.bincount(np.searchsorted(WAIT_EDGES_MS, waits_ms))
        for size in np.flatnonzero(sizes).tolist():
            self._tallies[Tally(name, "", size)] += int(sizes[size])
        self._tallies[Tally(f"{name}_ms", "", SUM)] += int(waits_ms.sum())

    def still_open(self, first_offset: int, before: OpenByTopic, now: OpenByTopic) -> None:
        """What is undecided in a segment, if that has changed."""
        if before == now:
            return
        found = now or {REST: OpenOf(0, -1)}
        self._add(
            OutcomeKind.OPEN,
            len(found),
            group=objects([group for group, _ in found]),
            topic=objects([topic for _, topic in found]),
            attempt=np.array([one.open for one in found.values()]),
            ingested_ms=np.array([one.oldest_ms for one in found.values()]),
            half_offset=np.full(len(found), first_offset),
        )

    def usage(self, usages: Usages) -> None:
        """How the usage of groups has changed."""
        if usages:
            numbers = np.array(list(usages.values()), dtype=np.int64)
            columns = {column: numbers[:, at] for at, column in enumerate(USAGE_COLUMNS)}
            self._add(OutcomeKind.USAGE, len(usages), group=objects(list(usages)), **columns)

    def rows(self) -> Rows:
        """All outcomes (``OUTCOME_FIELDS``)."""
        self.count(self._counts)
        if self._tallies:
            self._add(
                OutcomeKind.COUNT,
                len(self._tallies),
                reason=objects([tally.name for tally in self._tallies]),
                group=objects([tally.group for tally in self._tallies]),
                attempt=np.array([tally.size for tally in self._tallies]),
                half_offset=np.fromiter(self._tallies.values(), np.int64, len(self._tallies)),
            )
        parts = self._parts + self._last
        return Rows.concat(parts) if parts else Rows.empty(OUTCOME_FIELDS)

    def _by_group(self, name: str, groups: Column) -> None:
        if groups.size:
            for group, number in Counter(groups.tolist()).items():
                self._tallies[Tally(name, group, SUM)] += number

    def _whole(self, messages: Rows, one: OutcomeKind, several: OutcomeKind, *, uncounted: bool = False) -> None:
        bundled = messages["partition"] == BUNDLE
        for kind, chosen in ((one, ~bundled), (several, bundled)):
            if chosen.any():
                mark = {DELIVER_UNCOUNTED: np.ones(int(chosen.sum()))} if uncounted else {}
                self._add(kind, int(chosen.sum()), **_message(messages.take(chosen)), **mark)

    def _status_end(self, ended: Rows) -> None:
        if ended.count:
            self._add(OutcomeKind.STATUS_END, ended.count, **_identity(ended))

    def _add(self, kind: OutcomeKind, count: int, **columns: Column) -> None:
        self._parts.append(_outcomes(kind, count, **columns))


def answer_texts(misses: Column, remarks: Column) -> Column:
    """What checks came to that were answered just now, for people: the answer, and its remark if it has one."""
    words = np.where(misses > 0, "unreachable", "unknown")
    texts = [f": {remark.decode(errors='replace')}" if remark else "" for remark in remarks]
    return objects([f"{word}{text}"[:_ANSWER_CHARACTERS] for word, text in zip(words, texts, strict=True)])


def _outcomes(kind: OutcomeKind, count: int, **columns: Column) -> Rows:
    rows = Rows.blank({n: d for n, d in OUTCOME_FIELDS.items() if n not in columns}, count)
    rows["kind"][:] = kind
    cast = {name: columns[name].astype(OUTCOME_FIELDS[name], copy=False) for name in columns}
    full = rows.with_columns(**cast)
    return Rows({name: full[name] for name in OUTCOME_FIELDS})


def _identity(rows: Rows) -> dict[str, Column]:
    return {
        **{name: rows[name] for name in ("transaction_id", "group", "topic", "ingested_ms")},
        "half_offset": rows["offset"],
    }


def _message(rows: Rows) -> dict[str, Column]:
    return {**_identity(rows), **{name: rows[name] for name in ("partition", "key", "value", "headers", "left_out")}}


def _lane_of_checks(checked: Rows) -> dict[str, Column]:
    if (checked["lane"] == NO_LANE).all():
        return {}
    return {CHECK_LANE: np.where(checked["lane"] == NO_LANE, "", checked["lane_name"])}


def _small_message(rows: Rows) -> dict[str, Column]:
    sizes = value_bytes(rows)
    large = sizes > CHECK_PAYLOAD_BYTES
    columns = _message(rows)
    if large.any():
        columns["value"] = columns["value"].copy()
        columns["value"][large] = None
    return {**columns, "left_out": np.where(large | (rows["left_out"] >= 0), sizes, -1)}
