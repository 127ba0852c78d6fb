"""Everything that the model of a lane knows at one moment, and what Kafka does of it.

Kafka is as simple as it can be and still be Kafka: a transactional id whose newest epoch one process has, a transaction
that is open, or decided and not yet marked in each partition, the offset that it commits beside the messages, and logs
of ops. A process that is frozen is one whose step is not taken, and one that has died is frozen for ever. So there is
no step for either: every order of steps is tried.
"""

from collections.abc import Iterator
from enum import Enum, auto
from typing import NamedTuple

Halves = frozenset[int]
NONE: Halves = frozenset()


class Flaw(Enum):
    """A step of the protocol that is left out, or taken in the wrong place."""

    NO_FENCING = auto()
    """Who settles reads the ledger, and fences nobody."""
    LEDGER_NOT_READ = auto()
    """Who settles takes what it does not know for not delivered."""
    LEDGER_READ_BEFORE_THE_END = auto()
    """Who settles reads the ledger, and fences then."""
    LEDGER_READ_UNSTABLE = auto()
    """Who settles reads the ledger while the last transaction's offset is not taken in yet."""
    NO_LEDGER_IS_EMPTY = auto()
    """Who settles takes a ledger that has expired for one that lists nothing."""
    LEDGER_FORGETS = auto()
    """The lane lists what this transaction delivers, and not what was delivered before without its op acknowledged."""
    LEDGER_IN_NO_TRANSACTION = auto()
    """The lane commits the messages first and the ledger then."""
    OP_BEFORE_THE_COMMIT = auto()
    """The lane says that it has delivered when the messages are written."""
    SETTLED_IN_DOUBT = auto()
    """The lane hears nothing of its commit, takes that for a failure, and has the job deliver without settling."""
    LANE_USED_AGAIN = auto()
    """A second process takes the lane over, reads its ledger, and goes on delivering on it."""
    HEIR_DELIVERS = auto()
    """What was open on a fenced lane is delivered by its producer's next lane."""
    UNSETTLED_TAKEN = auto()
    """The job takes verdicts that do not say what the lane has done, as an earlier check service writes them."""
    TIMER_DECIDES = auto()
    """The job's timers commit or roll back what was never settled."""
    EARLY_OP_DROPPED = auto()
    """The job rejects an op that waits for its half message for too long, also one that says ``delivered``."""
    BATCH_WRITTEN_AGAIN = auto()
    """A batch that is run again is written again."""


class Fact(Enum):
    """What an op says of the lane."""

    NOTHING = auto()
    DELIVERED = auto()
    SETTLED = auto()
    """Not delivered by the lane, and never will be."""


class Op(NamedTuple):
    says: str
    """``commit``, ``rollback`` or ``unknown``."""
    fact: Fact
    operator: bool = False

    @property
    def sure(self) -> bool:
        """Whether it decides any half message that is not decided, so that later ops change nothing."""
        by_operator = self.operator and self.fact == Fact.SETTLED and self.says != "unknown"
        return self.fact == Fact.DELIVERED or by_operator


class Known(Enum):
    """What the job knows of a half message."""

    UNREAD = auto()
    OPEN = auto()
    COMMITTED = auto()
    ROLLED_BACK = auto()
    PARKED = auto()
    REFUSED = auto()
    """Its group was above a quota when it was read."""


OVER = (Known.COMMITTED, Known.ROLLED_BACK, Known.REFUSED)
"""What no op changes."""


class Row(NamedTuple):
    """The job's state of a half message, as saved."""

    known: Known = Known.OPEN
    settled: bool = False


class Batch(NamedTuple):
    """What the job has planned for one half message, and is bound to until its state is saved."""

    half: int
    read: tuple[Op, ...]
    timer: str
    written: bool = False


class Owner(NamedTuple):
    """The lane's own process."""

    at: str = "idle"
    group: int = 0
    """Which group commit is next, or under way."""
    delivered: Halves = NONE
    """What it knows to have delivered."""
    by_job: Halves = NONE
    """What it will never deliver itself."""
    acknowledged: Halves = NONE
    tried: Halves = NONE
    """Whose op was sent, with whatever result."""
    found: Halves = NONE
    """The ledger that it read when it settled its own lane."""


class Settler(NamedTuple):
    """One that decides else: a check service, an operator, or a process that takes itself for the owner."""

    at: str = "ready"
    half: int = -1
    says: str = ""
    ledger: Halves | None = None
    fact: Fact = Fact.NOTHING


class World(NamedTuple):
    # Kafka
    holder: str = "owner"
    """Who has the newest epoch of the lane's transactional id."""
    open: bool = False
    """Whether its transaction is under way."""
    staged: Halves = NONE
    """Messages written in it."""
    staged_ledger: Halves | None = None
    unmarked: Halves = NONE
    """Messages of the committed transaction whose partition has no marker yet."""
    pending_ledger: Halves | None = None
    """Its ledger, until Kafka's group coordinator has taken it in."""
    ledger: Halves | None = NONE
    visible: tuple[int, ...] = ()
    """How many messages of each half message a ``read_committed`` consumer finds."""
    by_lane: Halves = NONE
    """Those whose message a committed transaction of the lane has."""
    ops: tuple[tuple[Op, ...], ...] = ()
    """Of each half message those that the job has not taken in."""
    # processes
    owner: Owner = Owner()
    settlers: tuple[Settler, ...] = ()
    rows: tuple[Row, ...] = ()
    batch: Batch | None = None


Step = tuple[str, World]
"""What happens, and the world after it."""


def stage(world: World, who: str, halves: Halves) -> World | None:
    """Messages written in the transaction, which this begins; None: fenced."""
    if world.holder != who:
        return None
    return world._replace(open=True, staged=world.staged | halves)


def end(world: World, who: str, *, commit: bool) -> World | None:
    """The transaction decided; None: fenced, or Kafka has aborted it."""
    if world.holder != who or not world.open:
        return None
    ended = world._replace(open=False, staged=NONE, staged_ledger=None)
    if not commit:
        return ended
    pending = world.staged_ledger if world.staged_ledger is not None else world.pending_ledger
    return ended._replace(unmarked=world.staged, pending_ledger=pending, by_lane=world.by_lane | world.staged)


def init(world: World, who: str) -> World | None:
    """``init_transactions``: a new epoch, an open transaction aborted; None: not before the last one has ended."""
    if world.unmarked:
        return None
    return world._replace(holder=who, open=False, staged=NONE, staged_ledger=None)


def seen(world: World, half: int) -> World:
    """One more message of that half message readable."""
    counts = tuple(count + (at == half) for at, count in enumerate(world.visible))
    return world._replace(visible=counts)


def sent(world: World, half: int, op: Op) -> World:
    """The op at the end of its log; behind one that decides in any case it would change nothing."""
    if any(before.sure for before in world.ops[half]) or world.rows[half].known in OVER:
        return world
    if op in world.ops[half][-1:]:
        return world
    logs = tuple((*log, op) if at == half else log for at, log in enumerate(world.ops))
    return world._replace(ops=logs)


def of_kafka(world: World, *, expires: bool) -> Iterator[tuple[str, World]]:
    """What Kafka does by itself."""
    for half in sorted(world.unmarked):
        yield f"marker of {half}", seen(world._replace(unmarked=world.unmarked - {half}), half)
    if world.pending_ledger is not None:
        yield "ledger taken in", world._replace(ledger=world.pending_ledger, pending_ledger=None)
    if world.open:
        yield "transaction timed out", world._replace(holder="", open=False, staged=NONE, staged_ledger=None)
    if expires and world.ledger is not None and world.pending_ledger is None and not world.open:
        yield "ledger expired", world._replace(ledger=None)
