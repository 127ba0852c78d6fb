"""Random histories of one segment: few offsets and short times, so that much happens to each transaction."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import product

from hypothesis import strategies as st

from state import Always, Event, Policy, RunLimits
from tests.state.records import Broken, Half, Message, Op

Records = tuple[Half | Op, ...]
Came = tuple[Half | Op | Broken, ...]

_MOST_OPS = 10
"""In a batch, answers apart."""

_OFFSETS = range(4)
_BODIES = (
    (None, None, None),
    (b"", b"", None),
    (b"k", None, '[{"key":"trace","value":"AQ=="}]'),
    (None, b"\x00\xff", "Größe"),
)
"""Key, value and headers."""
_HALF_BODIES = (
    *((*body, -1) for body in _BODIES),
    (b"k", b"v" * 4_094, "h", -1),
    (b"k", b"v" * 4_095, "h", -1),
    (b"k" * 4_000, b"v", "h" * 97, -1),
    (b"k", b"v" * 70_000, "h", -1),
    (b"k", None, "h", 20_000),
    (None, None, None, 90_000),
)
"""The same of half messages, and what was left out."""
_IMMUNITY_AND_CHECK_MAX = ((-1, -1), (-1, 5), (0, -1), (3, 1), (20, 0), (200, -1))
_SAYS = (
    *("check_unknown", "check_unreachable", "check_unknown", "commit", "check_unknown", "rollback"),
    *("check_unreachable", "unknown", "check_commit", "check_rollback", "resume", "operator_commit"),
    *("operator_rollback", "resume", "redeliver", "delivered", "delivered"),
)
_DELIVER_AT = (-1, -1, -1, 900, 1_010, 1_060, 3_000)
"""Histories begin at 1,000 ms."""
_SAYS_OF_ITSELF = (*("",) * 8, "commit", "commit", "park")
"""What half messages say of themselves."""
_ON_EXHAUSTED = st.sampled_from(
    [Always(event) for event in (Event.EXHAUSTED, Event.EXHAUSTED, Event.EXHAUSTED_COMMIT, Event.EXHAUSTED_ROLLBACK)]
)


@dataclass(frozen=True)
class Batch:
    """What comes at one time."""

    step_ms: int | None
    """Time since the batch before; None: when the timer is due that the batch before asked for."""
    came: Came
    answer: str | None
    """What the producers say of every check that is outstanding, beside ``came``; None: nothing."""
    first_op_offset: int
    stored: bool
    """Whether the state goes through its bytes after this batch."""

    def all_came(self, outstanding: Iterable[Message]) -> Came:
        """``came`` and the answers to checks of these messages."""
        if self.answer is None:
            return self.came
        at = self.first_op_offset + _MOST_OPS
        return *self.came, *(
            Op(self.answer, message.offset, at + number, message.transaction_id, message.group, "check")
            for number, message in enumerate(outstanding)
        )


@dataclass(frozen=True)
class History:
    policy: Policy
    batches: tuple[Batch, ...]
    limits: RunLimits


def transaction_id(offset: int) -> str:
    """The transaction whose half message is at that offset."""
    return f"tx-{offset}"


@st.composite
def policies(draw: st.DrawFn) -> Policy:
    """Times of a few to a few dozen ms."""
    return Policy(
        transaction_timeout_ms=draw(st.integers(0, 12)),
        check_interval_ms=draw(st.integers(1, 12)),
        check_max=draw(st.integers(0, 3)),
        check_answer_ttl_ms=draw(st.integers(1, 25)),
        unreachable_backoff_max_ms=draw(st.integers(1, 60)),
        check_interval_max_ms=draw(st.integers(1, 40)),
        on_exhausted=draw(_ON_EXHAUSTED),
        late_end_needs_check=draw(st.booleans()),
        age_limit_ms=draw(st.sampled_from([30, 150, 10_000])),
        parked_ttl_ms=draw(st.sampled_from([1, 20, 1_000])),
        early_op_ttl_ms=draw(st.integers(1, 60)),
        early_op_max=draw(st.integers(1, 6)),
        claims_max=draw(st.integers(1, 3)),
        timer_slack_ms=draw(st.integers(0, 7)),
        segment_size=64,
    )


def _all_halves() -> list[Half]:
    """All kinds of half messages; one in twelve is another one than the first at its offset."""
    made: list[Half] = []
    for offset, body, numbers, again in product(_OFFSETS, _HALF_BODIES, _IMMUNITY_AND_CHECK_MAX, range(12)):
        name = transaction_id(offset) if again < 11 else "again"
        key, value, headers, left_out = body
        due_ms = _DELIVER_AT[len(made) % len(_DELIVER_AT)]
        immunity_ms, check_max = numbers
        named = (offset, name, "orders", "paid", again % 4 - 2)
        first = Half(*named, key, value, headers, immunity_ms, check_max, due_ms, left_out)
        says = _SAYS_OF_ITSELF[len(made) % len(_SAYS_OF_ITSELF)]
        of_lane = not says and len(made) % 3 == 0
        made.append(replace(first, says=says, lane=of_lane - 1, lane_name="0f" * 16 if of_lane else None))
    return made


_FEW_EVENTS = (RunLimits(events=1, group_least=0), RunLimits(events=1, group_least=1), RunLimits(group_events=2))
_LIMITS = st.sampled_from([*[RunLimits()] * 3, *_FEW_EVENTS, RunLimits(payload_bytes=5, group_least=1)])

_BY_OPERATORS = ("resume", "redeliver", "operator_commit", "operator_rollback")


def _all_ops() -> list[Op]:
    """All kinds of ops, most of them answers to checks; one in five is not its half message's."""
    made = []
    for says, offset, body, named in product(_SAYS, _OFFSETS, _BODIES, range(10)):
        name, group = (transaction_id(offset), "orders") if named < 8 else ("stranger", "orders")
        if named == 9:
            name, group = transaction_id(offset), "others"
        source = "check" if says.startswith("check") else "operator" if says in _BY_OPERATORS else "producer"
        settled = int(len(made) % 3 == 0 and says != "delivered")
        made.append(Op(says, offset, 0, name, group, source, *body, settled=settled))
    return made


# One draw for a record, from a list of all: nothing here takes as long as drawing.
HALVES = st.sampled_from(_all_halves())
OPS = st.sampled_from(_all_ops())

_SEVERAL_HALVES = st.lists(HALVES, max_size=3)
_SEVERAL_OPS = st.lists(OPS, max_size=4)
_ONCE_IN_EIGHT = st.sampled_from([False] * 7 + [True])
_STEPS_MS = st.sampled_from([*[None] * 6, 0, 0, 1, 2, 3, 4, 5, 8, 20, 40, 200, 5_000])
_ANSWERS = st.sampled_from([None, "check_unknown", "check_unknown", "check_unreachable", "check_unreachable", "commit"])
_ORDERS = st.sampled_from([(0, 1), (1, 1), (0, -1)])
"""From which op a batch starts, going round, and in which direction."""


@st.composite
def batches(draw: st.DrawFn, first_op_offset: int) -> Batch:
    """Records of one batch in any order; ops have offsets from ``first_op_offset`` on, some come twice."""
    came_ops = draw(_SEVERAL_OPS)
    if draw(_ONCE_IN_EIGHT):
        came_ops = came_ops + came_ops[:1]
    numbered = [replace(op, op_offset=first_op_offset + at) for at, op in enumerate(came_ops)]
    start, direction = draw(_ORDERS)
    came: list[Half | Op | Broken] = [*draw(_SEVERAL_HALVES), *(numbered[start:] + numbered[:start])[::direction]]
    if draw(_ONCE_IN_EIGHT):
        came.append(Broken(key=b"k", headers="[]"))
    return Batch(draw(_STEPS_MS), tuple(came), draw(_ANSWERS), first_op_offset, draw(st.booleans()))


@st.composite
def histories(draw: st.DrawFn) -> History:
    """Up to a dozen batches under one policy. Ops keep the order of their topic from batch to batch."""
    count = draw(st.integers(2, 12))
    came = tuple(draw(batches(first_op_offset=100 * at)) for at in range(count))
    return History(draw(policies()), came, draw(_LIMITS))


@st.composite
def splits(draw: st.DrawFn) -> tuple[Records, tuple[Records, ...]]:
    """One batch, and the same as several; half messages and ops each keep the order of their topic."""
    came_halves = [half for half in draw(st.lists(HALVES, max_size=5)) if half.immunity_ms != 0]
    ops = st.lists(OPS.filter(lambda op: op.says != "delivered"), max_size=8)  # of claims not as much is told
    came_ops = [replace(op, op_offset=at) for at, op in enumerate(draw(ops))]
    parts: list[list[Half | Op]] = [[] for _ in range(draw(st.integers(2, 4)))]
    both: tuple[Sequence[Half | Op], ...] = (came_halves, came_ops)
    for records in both:
        size = len(records)
        places = sorted(draw(st.lists(st.integers(0, len(parts) - 1), min_size=size, max_size=size)))
        for place, record in zip(places, records, strict=True):
            parts[place].append(record)
    whole: Records = (*came_halves, *draw(st.permutations(came_ops)))
    return whole, tuple(tuple(part) for part in parts)
