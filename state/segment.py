"""One segment of the half queue: its state, and its step from one batch to the next.

A segment covers ``segment_size`` consecutive offsets of one half partition. Its state is a *ledger*, one
:class:`~state.table.State` for each offset, the half messages that may still be wanted, and the ops that came
before their half message. :func:`evaluate` is a pure function of state, arrivals, time and policy.
"""

from dataclasses import dataclass, field
from typing import Self

import numpy as np

from state import outcomes
from state.allowance import Allowance
from state.claims import as_ops, contest, redeemed, with_more
from state.content import content_bytes, set_aside
from state.deadlines import fire_due, first_deadlines, next_timer, postponed, settle
from state.judge import judge
from state.open_by_topic import OpenByTopic, open_by_topic
from state.policy import Policy
from state.rows import (
    BROKEN_FIELDS,
    CLAIM_FIELDS,
    EARLY_FIELDS,
    HALF_FIELDS,
    MESSAGE_FIELDS,
    OP_FIELDS,
    Rows,
)
from state.table import KEPT, Event, State, StateCodes, transition
from state.usage import Usages, changes, usage_of

UNBOUNDED = 2**63 - 1

MISSED_REASON = "there is no half message at the place that its cb-half names"
BEYOND_REASON = "its cb-half names a place behind the end of the half topic"
SCATTERED_REASON = "too many ops name places that have not been read yet"
CLAIMS_REASON = "of its half message, not read yet, too many other ops say that its lane has delivered it"
MISFIT_REASON = "it says that a lane has delivered its half message, which names none, or has another cb-id or cb-group"


@dataclass
class Segment:
    """The state of one segment, kept between batches."""

    first_offset: int
    """Half offset of the ledger's first place."""
    ledger: StateCodes
    """uint8[segment_size]: a member of :class:`State` for each offset."""
    messages: Rows
    """Half messages that are undecided, parked, undeliverable or delayed (``MESSAGE_FIELDS``), those of a batch by
    offset."""
    early: Rows
    """Ops whose half message has not been seen (``EARLY_FIELDS``), but for what is in ``claims``."""
    claims: Rows
    """Of such ops those that say that a lane has delivered it (``CLAIM_FIELDS``)."""
    touched_ms: int
    """When something last came for this segment, or was last decided in it."""

    @classmethod
    def new(cls, number: int, policy: Policy) -> Self:
        """The segment of that number in its partition, before anything came for it."""
        return cls(
            first_offset=number * policy.segment_size,
            ledger=np.full(policy.segment_size, State.ABSENT, dtype=np.uint8),
            messages=Rows.empty(MESSAGE_FIELDS),
            early=Rows.empty(EARLY_FIELDS),
            claims=Rows.empty(CLAIM_FIELDS),
            touched_ms=0,
        )

    def usage(self, retry_prefix: str) -> Usages:
        """What each producer group has under way in the segment; see :func:`state.usage.usage_of`."""
        return usage_of(self.messages, self.ledger[self.messages["offset"] - self.first_offset], retry_prefix)

    def open_by_topic(self) -> OpenByTopic:
        """The undecided transactions of each group and real topic, and the oldest one's age."""
        return open_by_topic(self.messages, self.ledger[self.messages["offset"] - self.first_offset])

    @property
    def unknown(self) -> bool:
        """Whether nothing is known in it that would have to be kept."""
        return self.unopened and not self.claims.count

    @property
    def unopened(self) -> bool:
        """Whether it has nothing but claims, so that other ops may not be entitled to wait in it."""
        return not (self.messages.count or self.early.count or self.ledger.any())

    @property
    def early_only(self) -> bool:
        """Whether all that it has, but for claims, are ops that wait."""
        return bool(self.early.count) and not self.messages.count and not self.ledger.any()

    def forgettable(self, now_ms: int, policy: Policy) -> bool:
        """Whether no message is kept and every decision is older than ``early_op_ttl_ms``."""
        waits = self.messages.count or self.early.count or self.claims.count
        return not waits and now_ms - self.touched_ms >= policy.early_op_ttl_ms

    def waits_until(self, now_ms: int, policy: Policy) -> int | None:
        """When an op that waits has done so for too long; of claims, when to see again whether they still may."""
        times = [int(self.early["came_ms"].min())] if self.early.count else []
        times += [now_ms] if self.claims.count else []
        return min(times) + policy.early_op_ttl_ms if times else None


@dataclass(frozen=True)
class Arrivals:
    """What a batch brings for one segment."""

    halves: Rows = field(default_factory=lambda: Rows.empty(HALF_FIELDS))
    ops: Rows = field(default_factory=lambda: Rows.empty(OP_FIELDS))
    broken: Rows = field(default_factory=lambda: Rows.empty(BROKEN_FIELDS))

    @property
    def count(self) -> int:
        """Number of records."""
        return self.halves.count + self.ops.count + self.broken.count

    def content_bytes(self) -> int:
        """Of keys, values and headers."""
        return sum(int(content_bytes(rows).sum()) for rows in (self.halves, self.ops, self.broken))


@dataclass(frozen=True)
class Reach:
    """How far a segment's half partition goes, as one batch sees it. Offsets; by default nothing is known."""

    read_to: int = 0
    """Half messages before it have been read, in this batch or in one before."""
    end: int = UNBOUNDED
    """No half message lies from here on."""
    may_open: bool = True
    """Whether a segment of which nothing is known may be opened for ops that wait; for claims each one may."""


ANYWHERE = Reach()


@dataclass(frozen=True)
class Evaluation:
    """What one step gives."""

    segment: Segment | None
    """The state to keep, None when there is nothing left to know."""
    outcomes: Rows
    """Things to be written (``OUTCOME_FIELDS``)."""
    timer_ms: int | None
    """When to evaluate again without arrivals, in the time of ``now_ms``; not after that when timers were left."""


def evaluate(
    segment: Segment,
    arrivals: Arrivals,
    now_ms: int,
    policy: Policy,
    allowance: Allowance | None = None,
    reach: Reach = ANYWHERE,
) -> Evaluation:
    """Take in what a batch brought and let timers fire that are due by ``now_ms``.

    1. Half messages open; those that carry their own decision follow it.  2. Ops are judged, each half message's in
    the order of the op topic; an op whose half message is not there waits, if one can still come.  3. Timers fire, as
    many as ``allowance`` has left (a fresh one's, without it): an op that is already in the log comes before them.

    Arrivals of equal time may come in one batch or in several: steps 1 and 2 give the same, but for the status of
    an answer that a decision of the same batch makes idle, and for what is told of claims that are not believed.
    ``segment`` is consumed: use the one returned.
    """
    made = outcomes.Collector(tables=policy.tables)
    before, open_before = segment.usage(policy.retry_prefix), segment.open_by_topic()
    made.broken(arrivals.broken)
    _take_in(segment, arrivals.halves, now_ms, policy, made)
    allowance = allowance or Allowance()
    _judge_ops(segment, arrivals.ops, now_ms, policy, allowance, reach, made)
    turn_ms = fire_due(segment.messages, segment.ledger, segment.first_offset, now_ms, policy, made, allowance)
    _drop_stale_ops(segment, now_ms, policy, made)
    kept = np.isin(segment.ledger[segment.messages["offset"] - segment.first_offset], KEPT)
    if not kept.all():
        segment.messages = segment.messages.take(kept)
    # only what came now: the rest was set aside when it came
    set_aside(segment.messages, np.isin(segment.messages["offset"], arrivals.halves["offset"]))
    if arrivals.count or not kept.all():
        segment.touched_ms = now_ms
    made.usage(changes(before, segment.usage(policy.retry_prefix)))
    made.still_open(segment.first_offset, open_before, segment.open_by_topic())
    if segment.forgettable(now_ms, policy) or (reach != ANYWHERE and segment.unknown):
        return Evaluation(None, made.rows(), None)
    idle_ms = segment.touched_ms + policy.early_op_ttl_ms
    timer_ms = next_timer(segment.messages, segment.waits_until(now_ms, policy), idle_ms, policy, now_ms, turn_ms)
    return Evaluation(segment, made.rows(), timer_ms)


def _take_in(segment: Segment, halves: Rows, now_ms: int, policy: Policy, made: outcomes.Collector) -> None:
    if not halves.count:
        return
    # Kafka gives an offset once, and a replayed batch starts from the state before it; a second record at an
    # offset is still looked up in the table, like everything else.
    slots = halves["offset"] - segment.first_offset
    _, first = np.unique(slots, return_index=True)
    again = np.ones(halves.count, dtype=bool)
    again[first] = False
    fresh = ~again & (segment.ledger[slots] == State.ABSENT)
    came = halves.take(np.flatnonzero(fresh)[np.argsort(slots[fresh])])  # the shuffle lost their order
    new, every = _opened(came, now_ms, policy), np.arange(came.count)
    places_of_new = new["offset"] - segment.first_offset
    states = segment.ledger[places_of_new]
    events = contest(new, segment.claims, came["event"])
    events = postponed(new, every, states, events, now_ms)
    segment.ledger[places_of_new], results = transition(states, events)
    repeats = np.full(halves.count - came.count, Event.HALF, dtype=np.uint8)
    _, repeated = transition(segment.ledger[slots[~fresh]], repeats)
    made.count_half_messages(came["held"] == 1, results, repeated)
    if results.any():
        made.given_up(new, every, events, results)
        made.decided(new, every, results, uncounted=True)
        settle(new, every, results, now_ms, policy)
    segment.messages = Rows.concat([segment.messages, new])


def _opened(halves: Rows, now_ms: int, policy: Policy) -> Rows:
    count = halves.count
    # all columns but the event, which is not kept
    opened = Rows({name: halves[name] for name in MESSAGE_FIELDS if name in halves}).with_columns(
        deadline_ms=np.zeros(count, dtype=np.int64),
        asked_ms=np.full(count, -1, dtype=np.int64),
        attempts=np.zeros(count, dtype=np.int32),
        misses=np.zeros(count, dtype=np.int32),
        answer=np.full(count, "", dtype=object),
        ingested_ms=np.full(count, now_ms, dtype=np.int64),
    )
    opened["deadline_ms"][:] = first_deadlines(opened, policy)
    return opened


def _judge_ops(
    segment: Segment,
    ops: Rows,
    now_ms: int,
    policy: Policy,
    allowance: Allowance,
    reach: Reach,
    made: outcomes.Collector,
) -> None:
    made.count_ops(ops)
    came = ops.with_columns(came_ms=np.full(ops.count, now_ms, dtype=np.int64))
    waiting = segment.early.with_columns(time_ms=segment.early["came_ms"])
    ready = Rows.concat([waiting, came.take(np.argsort(ops["op_offset"]))])  # the shuffle lost their order
    if segment.claims.count:
        ready = Rows.concat([ready, _redeemed_claims(segment, reach, now_ms, made)])
    if not ready.count:
        return
    there = segment.ledger[ready["half_offset"] - segment.first_offset] != State.ABSENT
    opens = segment.unopened
    early = ready if not there.any() else ready.take(~there)
    early = _without_claims(segment, _that_may_come(early, reach, made), policy, made)
    if opens and not reach.may_open:
        made.rejected_ops(early, SCATTERED_REASON)
        early = early.take(np.zeros(early.count, dtype=bool))
    kept = np.arange(early.count) < policy.early_op_max
    made.rejected_ops(early.take(~kept), "more ops wait for half messages of this segment than early_op_max allows")
    early = early if kept.all() else early.take(kept)
    segment.early = Rows({name: early[name] for name in EARLY_FIELDS})
    if there.any():
        judge(
            segment.messages, segment.ledger, segment.first_offset, ready.take(there), now_ms, policy, allowance, made
        )


def _that_may_come(waiting: Rows, reach: Reach, made: outcomes.Collector, *, is_claims: bool = False) -> Rows:
    """Of ops, or claims, whose half message is not there, those whose may still come; the others are rejected.

    Kafka gives what it has in the order of offsets, so what was not among those read will not come. And who writes an
    op knows where its half message lies: not behind the end of the log as it was after the op.
    """
    missed, beyond = waiting["half_offset"] < reach.read_to, waiting["half_offset"] >= reach.end
    if not (missed.any() or beyond.any()):
        return waiting
    for chosen, reason in ((missed, MISSED_REASON), (beyond, BEYOND_REASON)):
        refused = waiting.take(chosen)
        made.rejected_ops(as_ops(refused) if is_claims else refused, reason)
    return waiting.take(~(missed | beyond))


def _without_claims(segment: Segment, early: Rows, policy: Policy, made: outcomes.Collector) -> Rows:
    """Of ops that are to wait, those that are no claims; these the segment keeps."""
    delivered = early["event"] == Event.DELIVERED
    if not delivered.any():
        return early
    said = early.take(delivered)
    segment.claims, repeated, too_many = with_more(segment.claims, said, policy.claims_max)
    made.repeated_claims(repeated)
    made.rejected_ops(said.take(too_many), CLAIMS_REASON)
    return early.take(~delivered)


def _redeemed_claims(segment: Segment, reach: Reach, now_ms: int, made: outcomes.Collector) -> Rows:
    """Claims whose half messages have come, as ops; the segment keeps those that may still come."""
    claims = segment.claims
    there = segment.ledger[claims["half_offset"] - segment.first_offset] != State.ABSENT
    ops, misfits = redeemed(claims.take(there), segment.messages)
    made.rejected_ops(as_ops(misfits), MISFIT_REASON)
    segment.claims = _that_may_come(claims.take(~there), reach, made, is_claims=True)
    now = np.full(ops.count, now_ms, dtype=np.int64)
    return ops.with_columns(came_ms=now, time_ms=now)


def _drop_stale_ops(segment: Segment, now_ms: int, policy: Policy, made: outcomes.Collector) -> None:
    if not segment.early.count:
        return
    stale = now_ms - segment.early["came_ms"] >= policy.early_op_ttl_ms
    if stale.any():
        made.rejected_ops(segment.early.take(stale), "no half message came to its position within early_op_ttl")
        segment.early = segment.early.take(~stale)
