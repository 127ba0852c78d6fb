"""Which transactions an operator may decide, and which of them a command names."""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, Protocol, TypeVar

from checkback.exceptions import OperatorError
from checkback.operations.in_doubt import InDoubt
from checkback.operations.operator_ops import Row
from checkback.operations.parked import IN_DOUBT_ACTIONS, ParkedMessage, parked_actions
from checkback.operations.times import said_duration
from checkback.wire.protocol import CONTESTED, Action, HalfPosition
from status_page.words import said_attempts

_MOST_NAMED = 10
SHORTEST = 4
"""Characters of a beginning: fewer are a slip of the finger."""
TOO_SHORT = f"A beginning needs {SHORTEST} characters."


class Candidate(NamedTuple):
    """A transaction that waits: in doubt, parked, or undeliverable."""

    transaction_id: str
    group: str
    topic: str
    half: HalfPosition
    since_ms: int
    """When the job took it in, or parked it, in ms since 1970."""
    how: str
    """How it waits, for people."""
    actions: frozenset[Action]
    """What can be done about it."""
    row: bool = False
    """Whether ``cb.status`` has it: it says when it is decided."""
    parked: bool = False
    """Whether ``cb.parked`` has it: likewise."""
    contested: bool = False
    """Whether only its real topic tells if it was delivered."""

    @property
    def row_of_op(self) -> Row:
        """What names it in an op."""
        return self.transaction_id, self.group, self.half


class TransactionFilter(NamedTuple):
    """Which transactions an operator has named."""

    ids: Sequence[str] = ()
    halves: Sequence[HalfPosition] = ()
    every: bool = False
    group: str | None = None
    topic: str | None = None
    before_ms: int | None = None
    """Only those that wait since then, or for longer."""

    def fits(self, one: Candidate) -> bool:
        """Whether group, topic and age are those that are wanted."""
        return (
            self.group in {None, one.group}
            and self.topic in {None, one.topic}
            and (self.before_ms is None or one.since_ms <= self.before_ms)
        )


def candidates(in_doubt: Iterable[InDoubt], parked: Iterable[ParkedMessage], now_ms: int) -> list[Candidate]:
    """All that wait, the oldest first. What both lists have is parked: the job writes that last.

    One that nothing can be done about is there, too, so that it is said why.
    """
    left = [_of_parked(one) for one in parked]
    found = {one.half: one for one in left if one.actions}
    for one in (*(of_row(row, now_ms) for row in in_doubt), *left):
        found.setdefault(one.half, one)
    return sorted(found.values(), key=lambda one: (one.since_ms, one.half))


def of_row(row: InDoubt, now_ms: int) -> Candidate:
    """One of ``cb.status``."""
    age, asked = said_duration(max(0, now_ms - row.ingested_ms)), said_attempts(row)
    return Candidate(
        *(row.transaction_id, row.group, row.topic, row.half, row.ingested_ms),
        how=f"in doubt for {age}, {asked if row.last_answer == Action.UNREACHABLE else f'attempt {asked}'}",
        actions=frozenset(IN_DOUBT_ACTIONS),
        row=True,
    )


def _of_parked(message: ParkedMessage) -> Candidate:
    return Candidate(
        *(message.transaction_id, message.group, message.topic, message.half, message.time_ms),
        how=f"parked: {message.reason}",
        actions=frozenset(parked_actions(undecided=message.undecided, kept=message.kept)),
        parked=True,
        contested=message.reason == CONTESTED,
    )


def chosen(
    found: Sequence[Candidate],
    action: Action,
    wanted: TransactionFilter,
    other: Callable[[HalfPosition], Candidate | None] = lambda _: None,
) -> list[Candidate]:
    """Those that are named, each once; with ``every``, all that fit and that the action is for.

    ``other`` gives one that is in none of the lists, by its place.

    Raises:
        OperatorError: one is not there, an id is that of several, or the action is of no use for one.
    """
    if wanted.every:
        return [one for one in found if wanted.fits(one) and action in one.actions]
    by_place = {one.half: one for one in found}
    placed = {half: by_place.get(half) or other(half) for half in wanted.halves}
    named = {name: _of_id(found, action, name) for name in wanted.ids}
    unknown = [str(half) for half, one in placed.items() if one is None]
    unknown += [name for name, several in named.items() if not several]
    if unknown:
        short = f" {TOO_SHORT}" if any(len(name) < SHORTEST for name in named) else ""
        raise OperatorError(
            f"Neither in doubt nor parked: {', '.join(unknown)}.{short} Nothing was done. 'checkback show' says how "
            "one stands; one that was never checked yet is named by its place (--half)."
        )
    several = [_said(name, ones) for name, ones in named.items() if len(ones) > 1]
    if several:
        raise OperatorError(f"{' '.join(several)} Name the place, as --half PARTITION:OFFSET. Nothing was done.")
    ones = [one for one in placed.values() if one is not None] + [one for ones in named.values() for one in ones]
    ones = [one for one in dict.fromkeys(ones) if wanted.fits(one)]
    _refuse(action, ones)
    return ones


def _of_id(found: Sequence[Candidate], action: Action, name: str) -> list[Candidate]:
    """Those with this id that the action is for; when there are none, one of the others, to be told of."""
    same = called(found, name)
    if ambiguous(same):
        return same
    return [one for one in same if action in one.actions] or same[:1]


def _said(name: str, ones: Sequence[Candidate]) -> str:
    begun = ambiguous(ones)
    places = ", ".join(
        f"{f'{one.transaction_id} at ' if begun else ''}{one.half} (group {one.group}, topic {one.topic})"
        for one in ones[:_MOST_NAMED]
    )
    if len(ones) > _MOST_NAMED:
        places += f" and {len(ones) - _MOST_NAMED} more"
    return f"{name} {'begins the ids' if begun else 'is the id'} of {len(ones)} transactions: {places}."


def _refuse(action: Action, ones: Sequence[Candidate]) -> None:
    wrong = [one for one in ones if action not in one.actions]
    if not wrong:
        return
    said = " ".join(f"{one.transaction_id} at {one.half} ({one.how}): {_of_use(one)}." for one in wrong[:_MOST_NAMED])
    if len(wrong) > _MOST_NAMED:
        said += f" So it is with {len(wrong) - _MOST_NAMED} more."
    raise OperatorError(f"'{action}' does not apply: {said} Nothing was done.")


def _of_use(one: Candidate) -> str:
    if one.actions:
        return f"try {' or '.join(sorted(one.actions))}"
    if one.parked:
        return "it is in cb.parked only, since it did not fit into cb.half: send it to its topic by hand"
    return "there is nothing to do about it"


class Identified(Protocol):
    """What has a transaction's id."""

    @property
    def transaction_id(self) -> str:
        """As its producer says."""


One = TypeVar("One", bound=Identified)


def called(found: Sequence[One], name: str) -> list[One]:
    """Those with this id; when there are none, those whose id begins so: of several ids, where it is ambiguous."""
    same = [one for one in found if one.transaction_id == name]
    if same or len(name) < SHORTEST:
        return same
    return [one for one in found if one.transaction_id.startswith(name)]


def ambiguous(found: Sequence[Identified]) -> bool:
    """Whether these have several ids."""
    return len({one.transaction_id for one in found}) > 1
