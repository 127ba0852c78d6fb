"""Half messages of one id: at most one is delivered, and none is lost, whoever is asked about which and when."""

import asyncio
from dataclasses import dataclass, field
from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from checkback.listener import LocalTransactionState
from checkback.wire.checks import CheckRequest
from checkback.wire.protocol import Action, HalfPosition
from gateway.asking import Asking, ClientAnswer, Heard
from gateway.checking import NAMED, Checking, Twins
from gateway.tickets import Ticket
from tests.gateway.scene import NOW_MS

ID = NAMED + "0" * 32
COMMIT, ROLLBACK, UNKNOWN = LocalTransactionState.COMMIT, LocalTransactionState.ROLLBACK, LocalTransactionState.UNKNOWN
PLACES = [HalfPosition(0, offset) for offset in range(3)]


class Op(NamedTuple):
    """What an op says."""

    half: HalfPosition
    action: str


@dataclass
class World:
    """A plain model: a partition, a client with one transaction, a job that goes by the first op on a half message."""

    accepted: int
    outcome: LocalTransactionState
    there: dict[int, HalfPosition] = field(default_factory=dict)
    """Where each try of the client's lies; the later it is written, the later its place."""
    ops: list[Op] = field(default_factory=list)
    unsaid: dict[int, Op] = field(default_factory=dict)
    """Answers to checks, on their way."""
    done: bool = False
    crossed: bool = False
    """What is left has happened: a checker said commit before its client's own end was written, or a try that the
    client had given up was written while an answer was under way."""
    op_comes: bool = True
    op_came: bool = False

    def fate(self, half: HalfPosition) -> str:
        """What the job has done with it: commit, rollback, or nothing yet."""
        deciding = (op.action for op in self.ops if op.half == half and op.action != Action.UNKNOWN)
        return next(deciding, "")

    def delivered(self) -> int:
        return sum(self.fate(half) == Action.COMMIT for half in self.there.values())

    def op(self) -> None:
        if self.done and self.op_comes and not self.op_came:
            self.op_came = True
            self.ops.append(Op(self.there[self.accepted], self.outcome.value))

    def write(self, number: int) -> None:
        """Those that the client has given up may be written at any time, in any order: a gateway was stopped."""
        if number not in self.there:
            self.there[number] = HalfPosition(0, len(self.there))
            self.crossed |= bool(self.unsaid)

    def finish(self) -> None:
        self.write(self.accepted)  # a local transaction begins after that
        self.done = True

    def say(self, number: int) -> None:
        if (answer := self.unsaid.pop(number, None)) is not None:
            self.ops.append(answer)

    async def check(self, number: int) -> None:
        if number not in self.there or number in self.unsaid or self.fate(self.there[number]):
            return
        half = self.there[number]
        asking = Asking(5)
        client = _Client(self, asking)
        asking.join(client, "shop")

        async def whole(check: CheckRequest) -> CheckRequest:
            return check

        async def find(*_: object) -> Twins:
            return Twins.of(self.there.values(), [op.half for op in self.ops if op.action == Action.COMMIT])

        check = CheckRequest(ID, "shop", "orders", None, b"", [], half, 1, 15, NOW_MS)
        said = await Checking(asking, whole, find, lambda _: None).answer(check)
        assert said is not None
        self.unsaid[number] = Op(half, said.state.value)


class _Client:
    """Answers from what is durable, and as a gateway's end does: also by an op, unless it is a word alone."""

    client_id = "a"
    listening = True

    def __init__(self, world: World, asking: Asking) -> None:
        self._world, self._asking = world, asking

    def hand(self, check: CheckRequest) -> None:
        world = self._world
        said = world.outcome if world.done else UNKNOWN
        world.crossed |= world.done and world.op_comes and not world.op_came
        if self._asking.answer(Ticket.of(check), ClientAnswer(said, "")) is Heard.AS_END and said is not UNKNOWN:
            world.ops.append(Op(check.half, said.value))

    def take_back(self, _: CheckRequest) -> bool:
        return False


steps = st.lists(
    st.sampled_from(["done", "op", *(f"{what} {n}" for what in ("write", "check", "say") for n in range(3))]),
    max_size=25,
)


async def _run(world: World, what: list[str]) -> None:
    world.write(0)
    for step in what:
        name, _, number = step.partition(" ")
        if name == "done":
            world.finish()
        elif name == "op":
            world.op()
        elif name == "write":
            world.write(int(number))
        elif name == "say":
            world.say(int(number))
        elif name == "check":
            await world.check(int(number))
    world.finish()
    world.op()
    for _ in range(3):  # whatever is open is asked about again
        for each in range(3):
            await world.check(each)
        for each in range(3):
            world.say(each)


@settings(max_examples=1_000)
@given(accepted=st.integers(0, 2), outcome=st.sampled_from([COMMIT, ROLLBACK]), op_comes=st.booleans(), what=steps)
def test_none_is_lost_and_none_comes_twice(
    accepted: int, outcome: LocalTransactionState, what: list[str], *, op_comes: bool
) -> None:
    world = World(accepted, outcome, op_comes=op_comes)
    asyncio.run(_run(world, what))
    assert all(world.fate(half) for half in world.there.values()), "nothing stays open"
    if outcome is ROLLBACK:
        assert world.delivered() == 0
    elif world.crossed:
        assert world.delivered() >= 1
    else:
        assert world.delivered() == 1


def test_one_that_is_not_committed_says_nothing_of_the_others() -> None:
    assert Twins.of(PLACES, []).committed is None
    assert Twins.of(PLACES, [PLACES[1]]).overrule(PLACES[2])


def test_the_first_commit_counts_and_those_of_others_do_not() -> None:
    twins = Twins.of(PLACES, [HalfPosition(0, 99), *PLACES[1:]])
    assert twins.committed == PLACES[1]
    assert [twins.let_commit(half) for half in PLACES] == [False, True, False]
