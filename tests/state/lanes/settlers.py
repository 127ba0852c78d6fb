"""Those that decide a half message by anything but its lane: check services, operators, and with a flaw others."""

from collections.abc import Iterator
from typing import Any

from tests.state.lanes.kafka import NONE, init, seen
from tests.state.lanes.setting import Setting
from tests.state.lanes.world import Fact, Flaw, Op, Step, World, sent


def of_settler(world: World, setting: Setting, at: int) -> Iterator[Step]:
    """One picks a half message, at any time, fences its lane, reads the ledger, and writes an op."""
    settler, who = world.settlers[at], f"{setting.settlers[at]} {at}"
    if settler.at == "ready":
        yield from _picks(world, setting, at)
    elif settler.at == "fence":
        after = init(world.kafka, who)
        if after is not None:
            following = "op" if settler.ledger is not None else "read"
            yield f"{who} fences the lane", _become(world._replace(kafka=after), at, at=following)
    elif settler.at == "read":
        yield from _reads(world, setting, at)
    elif settler.at == "op":
        takes_over = setting.settlers[at] in {"twin", "heir"} and settler.fact == Fact.SETTLED
        yield from _delivers(world, setting, at) if takes_over else _writes(world, setting, at)


def _become(world: World, at_place: int, **changes: Any) -> World:
    changed = world.settlers[at_place]._replace(**changes)
    return world._replace(settlers=(*world.settlers[:at_place], changed, *world.settlers[at_place + 1 :]))


def _picks(world: World, setting: Setting, at: int) -> Iterator[Step]:
    kind = setting.settlers[at]
    out_of_order = {Flaw.LEDGER_READ_BEFORE_THE_END, Flaw.NO_FENCING} & setting.flaws
    first = "read" if out_of_order else "fence"
    for half in sorted(setting.halves):
        for says in _verdicts(setting, kind, half):
            yield f"{kind} {at} will say {says} of {half}", _become(world, at, at=first, half=half, says=says)
            if kind == "check":  # one of an earlier version, which knows of no lanes
                unsettled = _become(world, at, at="op", half=half, says=says)
                yield f"{kind} {at} says {says} of {half} unsettled", unsettled
        fact = _owner_says(world, half)
        if kind == "check" and fact != Fact.NOTHING:
            answered = _become(world, at, at="op", half=half, says="commit", fact=fact)
            yield f"{kind} {at} hears of the lane's owner of {half}", answered


def _verdicts(setting: Setting, kind: str, half: int) -> tuple[str, ...]:
    """What one may say of a half message: an operator anything, a check what is true, or that it does not know."""
    if kind == "operator":
        return "commit", "rollback"
    true = "rollback" if half in setting.rolled_back else "commit"
    return (true, "unknown") if kind == "check" and setting.timers else (true,)


def _owner_says(world: World, half: int) -> Fact:
    """What the lane's own process answers when it is asked, without any settling."""
    if half in world.owner.delivered:
        return Fact.DELIVERED
    return Fact.SETTLED if half in world.owner.by_job else Fact.NOTHING


def _reads(world: World, setting: Setting, at: int) -> Iterator[Step]:
    settler, flaws, who = world.settlers[at], setting.flaws, f"{setting.settlers[at]} {at}"
    if world.kafka.pending_ledger is not None and Flaw.LEDGER_READ_UNSTABLE not in flaws:
        return
    ledger = world.kafka.ledger
    if Flaw.LEDGER_NOT_READ in flaws or (ledger is None and Flaw.NO_LEDGER_IS_EMPTY in flaws):
        ledger = NONE
    if ledger is None:
        yield f"{who} finds no ledger", _become(world, at, at="done")
        return
    fact = Fact.DELIVERED if settler.half in ledger else Fact.SETTLED
    following = "fence" if Flaw.LEDGER_READ_BEFORE_THE_END in flaws else "op"
    yield f"{who} reads {sorted(ledger)}", _become(world, at, at=following, ledger=ledger, fact=fact)


def _writes(world: World, setting: Setting, at: int) -> Iterator[Step]:
    settler, kind = world.settlers[at], setting.settlers[at]
    says = "commit" if settler.fact == Fact.DELIVERED else settler.says
    op = Op(says, settler.fact, operator=kind == "operator")
    name = f"{kind} {at} writes its op of {settler.half}: {op.says}, {op.fact.name.lower()}"
    yield name, _become(sent(world, settler.half, op), at, at="done")


def _delivers(world: World, setting: Setting, at: int) -> Iterator[Step]:
    """On a lane that it has made, or made its own: in one step, since nobody else knows of it."""
    settler, kind = world.settlers[at], setting.settlers[at]
    kafka = world.kafka
    if kind == "twin":
        fenced = init(kafka, f"{kind} {at}")  # used again, whoever has fenced it since
        if fenced is None:
            return
        kafka = fenced._replace(ledger=(settler.ledger or NONE) | {settler.half})
    kafka = seen(kafka, settler.half)
    kafka = kafka._replace(committed=kafka.committed | {settler.half})
    after = world._replace(kafka=kafka)
    yield f"{kind} {at} delivers {settler.half} itself", _become(after, at, fact=Fact.DELIVERED)
