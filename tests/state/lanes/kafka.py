"""Kafka in the models: one transactional id, its transaction, and the offset that the transaction commits.

One process holds the newest epoch of the id. A transaction is ongoing, or it has ended and some partitions have no
marker yet. A request may arrive late: its connection failed, the client sent it again on another connection, and Kafka
answered the second copy. Kafka handles the first copy like any request of that epoch, also in the middle of a later
transaction. KIP-890 describes that, and protects only clients that raise the epoch with each transaction; no Python
client does.
"""

from collections.abc import Iterator
from enum import Enum, IntEnum, auto
from typing import NamedTuple

Halves = frozenset[int]
NONE: Halves = frozenset()


class Request(IntEnum):
    """What a transactional producer sends, as far as it changes anything."""

    ADD_PARTITIONS = auto()
    PRODUCE = auto()
    ADD_OFFSETS = auto()
    COMMIT_OFFSETS = auto()
    """TxnOffsetCommit."""
    COMMIT = auto()
    """EndTxn with result commit."""
    ABORT = auto()
    """EndTxn with result abort."""
    INIT = auto()
    """InitProducerId."""


class Answer(Enum):
    """What a client learns of its request."""

    DONE = auto()
    DONE_AFTER_A_RESET = auto()
    """The connection failed, the client sent the request again, and Kafka answered."""
    FAILED = auto()
    """Kafka rejected the request, or never answered."""


class Call(NamedTuple):
    """A request with its content."""

    request: Request
    halves: Halves = NONE
    """Messages whose partition is added, messages to write, or the ledger."""

    def __str__(self) -> str:
        name = self.request.name.lower().replace("_", " ")
        return f"{name} {sorted(self.halves)}" if self.halves else name


class Kafka(NamedTuple):
    """All that Kafka stores of the transactional id."""

    holder: str = "owner"
    """The process with the newest epoch."""
    open: bool = False
    """Whether a transaction is ongoing."""
    added: Halves = NONE
    """Messages whose partition is in the transaction."""
    staged: Halves = NONE
    """Messages written in the transaction."""
    offsets_added: bool = False
    staged_ledger: Halves | None = None
    ended: Request | None = None
    """How the last transaction of this epoch ended; None if there was none, or if one is ongoing."""
    unmarked: Halves = NONE
    """Messages of the committed transaction whose partition has no marker yet."""
    pending_ledger: Halves | None = None
    """The committed ledger, until Kafka's group coordinator returns it."""
    ledger: Halves | None = NONE
    visible: tuple[int, ...] = ()
    """How many messages of each half message a ``read_committed`` consumer reads."""
    committed: Halves = NONE
    """Messages in committed transactions of this id."""
    late: frozenset[Call] = frozenset()
    """Copies that have not arrived yet; all of the newest epoch, because Kafka rejects others."""
    resets: int = 0
    """How many more connections may fail."""

    def delays(self, who: str, call: Call) -> bool:
        """Whether Kafka answers a client with an error after which the client repeats the request."""
        markers = bool(self.unmarked)
        offsets = call.request == Request.COMMIT_OFFSETS and self.pending_ledger is not None
        return self.holder == who and (markers or offsets)


def handle(kafka: Kafka, who: str, call: Call) -> Kafka | None:
    """Kafka after a request that it accepts; None if it rejects the request."""
    request, halves = call
    after: Kafka | None = None
    if kafka.holder != who:
        return None
    if request in {Request.COMMIT, Request.ABORT}:
        after = _end(kafka, request)
    elif request == Request.PRODUCE:
        after = kafka._replace(staged=kafka.staged | halves) if halves <= kafka.added else None
    elif request == Request.COMMIT_OFFSETS:
        accepted = kafka.offsets_added and kafka.pending_ledger is None
        after = kafka._replace(staged_ledger=halves) if accepted else None
    elif not kafka.unmarked:
        more = {"added": kafka.added | halves} if request == Request.ADD_PARTITIONS else {"offsets_added": True}
        after = kafka._replace(open=True, ended=None, **more)
    return after


def _end(kafka: Kafka, request: Request) -> Kafka | None:
    if not kafka.open:
        return kafka if kafka.ended == request else None  # EndTxn is idempotent
    ended = aborted(kafka)._replace(ended=request)
    if request == Request.ABORT:
        return ended
    pending = kafka.pending_ledger if kafka.staged_ledger is None else kafka.staged_ledger
    return ended._replace(unmarked=kafka.staged, pending_ledger=pending, committed=kafka.committed | kafka.staged)


def aborted(kafka: Kafka) -> Kafka:
    """Kafka without the ongoing transaction."""
    return kafka._replace(open=False, added=NONE, staged=NONE, offsets_added=False, staged_ledger=None, ended=None)


def init(kafka: Kafka, who: str) -> Kafka | None:
    """``init_transactions``: a new epoch, an ongoing transaction aborted; None: not before the last one has ended."""
    return None if kafka.unmarked else aborted(kafka)._replace(holder=who, late=frozenset())


def seen(kafka: Kafka, half: int) -> Kafka:
    """One more message of that half message readable."""
    counts = tuple(count + (at == half) for at, count in enumerate(kafka.visible))
    return kafka._replace(visible=counts)


def answers(kafka: Kafka, who: str, call: Call, late: frozenset[Request]) -> Iterator[tuple[str, Kafka, Answer]]:
    """What may become of a request. After a failed connection a copy of a request in ``late`` is still on its way."""
    if kafka.delays(who, call):
        return
    after = handle(kafka, who, call)
    if after is None:
        yield f"{who}: {call}, rejected", kafka, Answer.FAILED
        return
    yield f"{who}: {call}", after, Answer.DONE
    if call.request in late and kafka.resets:
        copies, resets = kafka.late | {call}, kafka.resets - 1
        still = kafka.late if call.request == Request.PRODUCE else copies  # its sequence number is known already
        twice = after._replace(late=still, resets=resets)
        yield f"{who}: {call}, twice after a reset", twice, Answer.DONE_AFTER_A_RESET
        yield f"{who}: {call}, no answer", kafka._replace(late=copies, resets=resets), Answer.FAILED


def of_kafka(kafka: Kafka, *, expires: bool, late: frozenset[Request]) -> Iterator[tuple[str, Kafka]]:
    """What happens in Kafka without another request of the client."""
    for half in sorted(kafka.unmarked)[:1]:  # processes see whether a marker is missing, not which one
        yield f"marker of {half}", seen(kafka._replace(unmarked=kafka.unmarked - {half}), half)
    if kafka.pending_ledger is not None:
        yield "ledger taken in", kafka._replace(ledger=kafka.pending_ledger, pending_ledger=None)
    if kafka.open:
        yield "transaction timed out", aborted(kafka)._replace(holder="", late=frozenset())
    if expires and kafka.ledger is not None and kafka.pending_ledger is None and not kafka.open:
        yield "ledger expired", kafka._replace(ledger=None)
    for call in kafka.late:
        after = handle(kafka, kafka.holder, call)
        if after is not None:
            yield f"late copy of {call} arrives", after._replace(late=kafka.late - {call})
    if Request.INIT in late and kafka.resets:
        fenced = init(kafka, "")
        if fenced is not None:
            yield "late copy of an earlier init arrives", fenced._replace(resets=kafka.resets - 1)
