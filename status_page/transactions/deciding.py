"""What operators may do with which transactions, and the ops that say so."""

import json
import logging
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from checkback.exceptions import CheckbackError, OperatorError, ProtocolError
from checkback.kafka.kafka_python.library import KafkaError
from checkback.operations.in_doubt import InDoubt
from checkback.operations.lanes import LanesSettled, Look, Wish, no_lanes, settled
from checkback.operations.operator_ops import OperatorOps
from checkback.operations.parked import IN_DOUBT_ACTIONS, parked_actions
from checkback.wire.lanes import LaneFact
from checkback.wire.printable import printable
from checkback.wire.protocol import CONTESTED, Action, HalfPosition
from status_page.facts import BatchFacts
from status_page.transactions.index import Index, Parked, place_in
from status_page.transactions.receipts import Chosen, OperatorDecision, Receipt

_LOGGER = logging.getLogger(__name__)
MOST_AT_ONCE = 500
WHO_CHARACTERS = 100
WHY_CHARACTERS = 500
_RECEIPTS = 200
ACTIONS = (Action.COMMIT, Action.ROLLBACK, Action.RESUME, Action.REDELIVER)


class NobodyKnowsError(OperatorError):
    """Nobody can know of a message whether its lane has delivered it; nothing is written."""


class Deciding:
    """Writes ops, and remembers for a while what was written.

    ``connect`` opens what writes; ``look`` finds out what lanes have done; ``kept`` reads receipts from before a
    restart, and ``read_rejected`` which of its ops the job rejected: both of
    :class:`~status_page.transactions.receipts.KafkaReceipts`.
    """

    def __init__(
        self,
        index: Index,
        connect: Callable[[], OperatorOps],
        now_ms: Callable[[], int] = lambda: int(time.time() * 1000),
        look: Look = no_lanes,
        kept: Callable[[str], Receipt | None] = lambda _name: None,
        read_rejected: Callable[[Receipt], bool] = lambda _receipt: True,
    ) -> None:
        self._kept = kept
        self._read_rejected = read_rejected
        self._look = look
        self._index = index
        self._connect = connect
        self._now_ms = now_ms
        self._one_at_a_time = threading.Lock()
        self._receipts: OrderedDict[str, Receipt] = OrderedDict()

    def chosen(self, names: Sequence[str]) -> tuple[list[Chosen], list[str]]:
        """The transactions with these names (:attr:`Chosen.name`), each once, and the names of those not there."""
        found = {name: self._one(name) for name in names[:MOST_AT_ONCE]}
        return [one for one in found.values() if one], [name for name, one in found.items() if one is None]

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
                    by_lane = frozenset(half for _, _, half in lanes.delivered)
                    receipt = Receipt(secrets.token_urlsafe(12), decision, self._now_ms(), by_lane)
                    _file(ops, receipt)
            except ProtocolError as error:
                raise OperatorError(f"One of them cannot be named in an op: {error}") from error
            finally:
                _log(decision)
        return self._remembered(receipt)

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
        """What was written, also before the job's last restart; None if nothing was.

        Raises:
            OperatorError: it cannot be read now.
            KafkaUnreachableError: Kafka does not answer.
        """
        known = self._receipts.get(name) or self._kept(name)
        return known and self._remembered(known)

    def outcome(self, receipt: Receipt, batch: BatchFacts | None) -> tuple[set[str], Mapping[str, str]]:
        """Names of those of which nothing is known yet, and why the job rejected some.

        The last batch, the lists and ``cb.rejected`` tell.
        """
        decision = receipt.decision
        names = {one.name for one in decision.chosen}
        if batch is None or batch.ended_ms - batch.seconds * 1000 <= receipt.time_ms:
            return names, {}  # one that is gone from the lists was perhaps decided by another op
        judged = names - {one.name for one in self.chosen([*names])[0] if decision.action in one.actions}
        if judged - receipt.settled:
            with suppress(CheckbackError):  # then it is not known yet
                receipt.settled |= judged if self._read_rejected(receipt) else set()
        return names - (judged & (receipt.settled | receipt.rejected.keys())), receipt.rejected

    def _remembered(self, receipt: Receipt) -> Receipt:
        self._receipts[receipt.name] = receipt
        while len(self._receipts) > _RECEIPTS:
            self._receipts.popitem(last=False)
        return receipt

    def _one(self, name: str) -> Chosen | None:
        place, _, transaction_id = name.partition(" ")
        half = place_in(place)
        if half is None:
            return None
        row = self._index.in_doubt_at(half)
        rows: list[InDoubt | Parked] = [*self._index.parked_at(half), *([row] if row else [])]
        return next((chosen_of(row) for row in rows if row.transaction_id == transaction_id), None)


def _file(ops: OperatorOps, receipt: Receipt) -> None:
    """Keep it in Kafka, under a name that has its place there."""
    try:
        partition, offset, receipt.filed_ms = ops.file(receipt.to_record())
    except (KafkaError, CheckbackError) as error:
        _LOGGER.warning("The receipt of an operator's decision is gone after a restart of the job: %s", error)
    else:
        receipt.name = f"{HalfPosition(partition, offset)}:{receipt.name}"


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
