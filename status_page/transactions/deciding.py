"""What operators may do with which transactions, and the ops that say so."""

import json
import logging
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from types import TracebackType
from typing import NamedTuple, Protocol, Self

from checkback.exceptions import OperatorError, ProtocolError
from checkback.operations.in_doubt import InDoubt
from checkback.operations.lanes import LanesSettled, Look, Wish, no_lanes, settled
from checkback.operations.operator_ops import Row
from checkback.operations.parked import IN_DOUBT_ACTIONS, parked_actions
from checkback.wire.delivered import LaneFact
from checkback.wire.printable import printable
from checkback.wire.protocol import CONTESTED, Action, HalfPosition
from status_page.facts import BatchFacts
from status_page.transactions.index import Index, Parked

_LOGGER = logging.getLogger(__name__)
MOST_AT_ONCE = 500
WHO_CHARACTERS = 100
WHY_CHARACTERS = 500
_RECEIPTS = 200
_CLOCKS_MS = 60_000
"""Clocks of brokers differ by less."""

ACTIONS = (Action.COMMIT, Action.ROLLBACK, Action.RESUME, Action.REDELIVER)


class Chosen(NamedTuple):
    """A transaction, or a parked message, that somebody wants to decide about."""

    half: HalfPosition
    transaction_id: str
    group: str
    topic: str
    actions: tuple[Action, ...]
    """What is of use for it."""
    contested: bool = False
    """Whether only its real topic tells if its lane has delivered it."""

    @property
    def name(self) -> str:
        """What names it in forms and in the API's bodies: its place and its id."""
        return f"{self.half} {self.transaction_id}"


class OperatorDecision(NamedTuple):
    """What somebody wants done."""

    action: Action
    chosen: tuple[Chosen, ...]
    who: str
    why: str
    seen: LaneFact | None = None
    """What was seen in the real topics, for those of which nobody else can know."""


class Receipt(NamedTuple):
    """What was done."""

    name: str
    decision: OperatorDecision
    time_ms: int
    by_lane: frozenset[HalfPosition] = frozenset()
    """These are committed, which was not asked for: their lanes have delivered them."""


Rejections = Callable[[int], Mapping[tuple[str, str, str], str]]
"""Why the job has rejected operators' ops since a time, by half message, transaction id and action."""


class NobodyKnowsError(OperatorError):
    """Nobody can know of a message whether its lane has delivered it; nothing is written."""


class Ops(Protocol):
    """:class:`checkback.operations.operator_ops.OperatorOps`, as it is used here."""

    def __enter__(self) -> Self:
        """Connect."""

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Let go."""

    def write(self, rows: Iterable[Row], action: Action, remark: str = "", fact: LaneFact | None = None) -> int:
        """Write an op for each."""


class Deciding:
    """Writes ops, and remembers for a while what was written.

    ``connect`` opens what writes; ``look`` finds out what lanes have done; ``rejections`` reads what the job rejected.
    """

    def __init__(
        self,
        index: Index,
        connect: Callable[[], Ops],
        now_ms: Callable[[], int] = lambda: int(time.time() * 1000),
        look: Look = no_lanes,
        rejections: Rejections = lambda _since_ms: {},
    ) -> None:
        self._rejections = rejections
        self._look = look
        self._index = index
        self._connect = connect
        self._now_ms = now_ms
        self._one_at_a_time = threading.Lock()
        self._receipts: OrderedDict[str, Receipt] = OrderedDict()

    def chosen(self, names: Sequence[str]) -> tuple[list[Chosen], list[str]]:
        """The transactions with these names (:attr:`Chosen.name`), each once, and the names of those not there."""
        found, missing = {}, []
        for name in dict.fromkeys(names[:MOST_AT_ONCE]):
            one = self._one(name)
            if one is None:
                missing.append(name)
            else:
                found[one.name] = one
        return list(found.values()), missing

    def write(self, decision: OperatorDecision) -> Receipt:
        """Write an op for each, and wait until Kafka has them all.

        Raises:
            OperatorError: Kafka did not take one; those before it are written.
            NobodyKnowsError: of one it is not known whether it was delivered; nothing is written.
            KafkaUnreachableError: no Kafka answers; nothing is written.
        """
        lanes = self._settled(decision)
        said = {"who": decision.who, "why": decision.why, "by": "status page"}
        remark = json.dumps(said, ensure_ascii=False)
        with self._one_at_a_time:
            try:
                with self._connect() as ops:
                    for write in lanes.writes:
                        ops.write(write.rows, write.action, remark, write.fact)
            except ProtocolError as error:
                raise OperatorError(f"One of them cannot be named in an op: {error}") from error
            finally:
                _log(decision)
            by_lane = frozenset(half for _, _, half in lanes.delivered)
            receipt = Receipt(secrets.token_urlsafe(12), decision, self._now_ms(), by_lane)
            self._receipts[receipt.name] = receipt
            while len(self._receipts) > _RECEIPTS:
                self._receipts.popitem(last=False)
        return receipt

    def _settled(self, decision: OperatorDecision) -> LanesSettled:
        wishes = [Wish((one.transaction_id, one.group, one.half), one.contested) for one in decision.chosen]
        lanes = settled(decision.action, wishes, self._look, decision.seen)
        if lanes.unknown:
            ((name, _, half), why), more = lanes.unknown[0], len(lanes.unknown) - 1
            others = f"; and so it is with {more} more" if more else ""
            raise NobodyKnowsError(
                f"Nobody can know whether {name} at {half} was delivered, since {why}{others}. Look into the real "
                "topic, and say what it has. Nothing was done."
            )
        return lanes

    def receipt(self, name: str) -> Receipt | None:
        """What was written; None when it was too long ago, or never."""
        return self._receipts.get(name)

    def waiting(self, receipt: Receipt, batch: BatchFacts | None) -> set[str]:
        """Names of those whose op the job has not judged yet, as far as its last batch and the lists say."""
        decision = receipt.decision
        names = [one.name for one in decision.chosen]
        if batch is None or batch.ended_ms - batch.seconds * 1000 <= receipt.time_ms:
            return set(names)  # one that is gone from the lists was perhaps decided by another op
        return {one.name for one in self.chosen(names)[0] if decision.action in one.actions}

    def rejected(self, receipt: Receipt, waiting: Container[str]) -> dict[str, str]:
        """Why the job rejected the op, by name, of those that lost: another decision came first."""
        judged = [one for one in receipt.decision.chosen if one.name not in waiting]
        reasons = self._rejections(receipt.time_ms - _CLOCKS_MS) if judged else {}
        keys = {one.name: (str(one.half), one.transaction_id, receipt.decision.action.value) for one in judged}
        return {name: reasons[key] for name, key in keys.items() if key in reasons}

    def _one(self, name: str) -> Chosen | None:
        place, _, transaction_id = name.partition(" ")
        try:
            half = HalfPosition.parse(place)
        except ProtocolError:
            return None
        row = self._index.in_doubt_at(half)
        rows: list[InDoubt | Parked] = [*self._index.parked_at(half), *([row] if row else [])]
        return next((chosen_of(row) for row in rows if row.transaction_id == transaction_id), None)


def chosen_of(row: InDoubt | Parked) -> Chosen:
    """A row of one of the lists, with what may be done about it."""
    contested = isinstance(row, Parked) and row.reason == CONTESTED
    return Chosen(row.half, row.transaction_id, row.group, row.topic, actions_for(row), contested)


def actions_for(row: InDoubt | Parked) -> tuple[Action, ...]:
    """What is of use for it."""
    return IN_DOUBT_ACTIONS if isinstance(row, InDoubt) else parked_actions(undecided=row.undecided, kept=row.kept)


SEEN = {"delivered": LaneFact.DELIVERED, "not delivered": LaneFact.SETTLED}
"""What one may have seen in the real topic."""


def problems(action: str, chosen: Sequence[Chosen], who: str, why: str, seen: str = "") -> list[str]:
    """What is wrong with a decision, in sentences; nothing is written while there is anything."""
    wrong = []
    if seen and seen not in SEEN:
        wrong.append(f"What was seen must be one of {', '.join(SEEN)}.")
    if seen == "delivered" and action != Action.COMMIT:
        wrong.append("What is delivered is committed: choose commit.")
    if action not in ACTIONS:
        wrong.append(f"The action must be one of {', '.join(ACTIONS)}.")
    if not chosen:
        wrong.append("Choose at least one transaction.")
    useless = [one for one in chosen if action in ACTIONS and action not in one.actions]
    if useless:
        wrong.append(f"{action} does not apply to {', '.join(one.name for one in useless[:10])}.")
    for name, text, most in (("who you are", who, WHO_CHARACTERS), ("why", why, WHY_CHARACTERS)):
        if not text.strip():
            wrong.append(f"Say {name}.")
        elif len(text) > most:
            wrong.append(f"Say {name} in at most {most} characters.")
    return wrong


def _log(decision: OperatorDecision) -> None:
    names = ", ".join(f"{one.transaction_id} at {one.half}" for one in decision.chosen[:10])
    more = f" and {len(decision.chosen) - 10:,} more" if len(decision.chosen) > 10 else ""
    said = printable(f"{decision.action} of {names}{more} by {decision.who!r}: {decision.why!r}")
    _LOGGER.warning("An operator acts on the status page: %s", said)
