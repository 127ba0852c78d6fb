"""Everything that the model of a lane contains at one moment.

Kafka's transactions are in ``kafka.py``; the logs of ops are here. A frozen process is one whose step is not taken, and
a dead one is frozen forever. So there is no step for either: the explorer tries every order of steps.
"""

from enum import Enum, IntEnum, auto
from typing import NamedTuple

from tests.state.lanes.kafka import NONE, Halves, Kafka


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
    EPOCH_KEPT_AFTER_A_RESET = auto()
    """The lane goes on after a failed connection if Kafka answers the end of the transaction all the same."""


class Fact(IntEnum):
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


class Known(IntEnum):
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
    written: Halves = NONE
    """Messages of this transaction that Kafka has acknowledged."""
    listing: int = 0
    """How many of the ledger's two requests Kafka has acknowledged."""
    reset: bool = False
    """Whether a connection has failed in this transaction."""
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
    """Kafka, and the processes."""

    kafka: Kafka = Kafka()
    ops: tuple[tuple[Op, ...], ...] = ()
    """Of each half message those that the job has not taken in."""
    owner: Owner = Owner()
    settlers: tuple[Settler, ...] = ()
    rows: tuple[Row, ...] = ()
    batch: Batch | None = None


Step = tuple[str, World]
"""What happens, and the world after it."""


def sent(world: World, half: int, op: Op) -> World:
    """The op at the end of its log; behind one that decides in any case it would change nothing."""
    if any(before.sure for before in world.ops[half]) or world.rows[half].known in OVER:
        return world
    if op in world.ops[half][-1:]:
        return world
    logs = tuple((*log, op) if at == half else log for at, log in enumerate(world.ops))
    return world._replace(ops=logs)
