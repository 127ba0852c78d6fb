"""What a model is made of."""

from dataclasses import dataclass

from tests.state.lanes.kafka import NONE, Halves, Kafka, Request
from tests.state.lanes.world import Flaw, Known, Row, Settler, World

ONE: tuple[Halves, ...] = (frozenset({0}),)
TWO: tuple[Halves, ...] = (frozenset({0}), frozenset({1}))
TOGETHER: tuple[Halves, ...] = (frozenset({0, 1}),)


@dataclass(frozen=True)
class Setting:
    """Who takes part, and what may happen to them."""

    groups: tuple[Halves, ...] = TWO
    """What the lane commits together, in this order."""
    rolled_back: Halves = NONE
    """Half messages whose local transaction has not happened."""
    settlers: tuple[str, ...] = ("check",)
    """``check``, ``operator``, or with a flaw ``twin`` and ``heir``."""
    timers: tuple[str, ...] = ()
    """Of ``commit``, ``rollback`` (what the job's policy does after the last attempt) and ``age``."""
    unread: bool = False
    """Whether the job may read ops before their half messages."""
    quota: bool = False
    """Whether the job may refuse a half message that it reads."""
    expires: bool = False
    """Whether the ledger may expire."""
    late: frozenset[Request] = frozenset()
    """Requests of which a copy may arrive late."""
    resets: int = 1
    """How many connections may fail, each on one of these requests."""
    flaws: frozenset[Flaw] = frozenset()

    @property
    def halves(self) -> Halves:
        return NONE.union(*self.groups) | self.rolled_back

    @property
    def others_commit(self) -> bool:
        """Whether somebody may commit what the producer has rolled back."""
        return "operator" in self.settlers or "commit" in self.timers

    def begin(self) -> World:
        count = len(self.halves)
        row = Row(Known.UNREAD if self.unread or self.quota else Known.OPEN)
        kafka = Kafka(visible=(0,) * count, resets=self.resets if self.late else 0)
        return World(kafka, ops=((),) * count, rows=(row,) * count, settlers=(Settler(),) * len(self.settlers))
