"""The lane's own process: what it may do next."""

from collections.abc import Iterator
from functools import reduce
from typing import Any

from tests.state.lanes.setting import Setting
from tests.state.lanes.world import NONE, Fact, Flaw, Halves, Op, Step, World, end, init, sent, stage


def of_owner(world: World, setting: Setting) -> Iterator[Step]:
    """Group commits one after the other; after any error it settles its own lane, and is its owner no longer."""
    owner = world.owner
    group = setting.groups[owner.group] if owner.group < len(setting.groups) else NONE
    if owner.at == "idle":
        if group and not world.unmarked:  # Kafka begins none before the last one has ended
            yield from _writes(world, setting, group)
        for half in sorted(setting.rolled_back - owner.tried):  # it knows, and needs to ask nobody
            yield from _sends(world, half, Op("rollback", Fact.SETTLED))
    elif owner.at == "written":
        yield from _lists(world, setting, group)
    elif owner.at == "listed":
        yield from _commits(world, setting, group)
    elif owner.at == "ops":
        yield from _tells(world, group)
    else:
        yield from _gives_up(world, setting, group)


def _become(world: World, **changes: Any) -> World:
    return world._replace(owner=world.owner._replace(**changes))


def _writes(world: World, setting: Setting, group: Halves) -> Iterator[Step]:
    after = stage(world, "owner", group)
    if after is None:
        yield "owner finds itself fenced", _become(world, at="settle")
        return
    yield f"owner writes {sorted(group)}", _become(after, at="written")
    if Flaw.OP_BEFORE_THE_COMMIT in setting.flaws:
        told = reduce(lambda made, half: sent(made, half, Op("commit", Fact.DELIVERED)), group, after)
        yield f"owner writes {sorted(group)}, and says so", _become(told, at="written")


def _lists(world: World, setting: Setting, group: Halves) -> Iterator[Step]:
    owner, flaws = world.owner, setting.flaws
    listed = group if Flaw.LEDGER_FORGETS in flaws else group | (owner.delivered - owner.acknowledged)
    if stage(world, "owner", NONE) is None:
        yield "owner's ledger fails", _become(world, at="settle")
    elif Flaw.LEDGER_IN_NO_TRANSACTION in flaws:
        yield "owner lists nothing yet", _become(world, at="listed")
    elif world.pending_ledger is None:
        yield f"owner lists {sorted(listed)}", _become(world._replace(staged_ledger=listed), at="listed")
    aborted = end(world, "owner", commit=False)
    if aborted is not None:
        yield "a topic refuses, owner aborts", _become(aborted, at="ops", by_job=owner.by_job | group)


def _commits(world: World, setting: Setting, group: Halves) -> Iterator[Step]:
    after, delivered = end(world, "owner", commit=True), world.owner.delivered | group
    if after is None:
        yield "owner's commit fails", _become(world, at="settle")
        return
    late = Flaw.LEDGER_IN_NO_TRANSACTION in setting.flaws
    yield "owner commits", _become(after, at="late ledger" if late else "ops", delivered=delivered)
    yield "owner commits and hears nothing", _become(after, at="doubt")


def _tells(world: World, group: Halves) -> Iterator[Step]:
    """Each op is sent once, or again where it was not acknowledged."""
    owner = world.owner
    for half in sorted((group | owner.delivered) - owner.acknowledged):
        fact = Fact.DELIVERED if half in owner.delivered else Fact.SETTLED
        yield from _sends(world, half, Op("commit", fact))
    if group <= owner.tried:
        yield "owner goes on", _become(world, at="idle", group=owner.group + 1)


def _gives_up(world: World, setting: Setting, group: Halves) -> Iterator[Step]:
    owner = world.owner
    if owner.at == "late ledger":
        if world.holder == "owner":
            yield "owner commits the ledger", _become(world._replace(ledger=owner.delivered), at="ops")
        else:
            yield "owner finds itself fenced", _become(world, at="settle")
    elif owner.at == "doubt" and Flaw.SETTLED_IN_DOUBT in setting.flaws:
        yield "owner gives it to the job", _become(world, at="ops", by_job=owner.by_job | group)
    elif owner.at == "doubt":
        yield "owner is in doubt", _become(world, at="settle")
    elif owner.at == "settle":
        after = init(world, "owner settling")
        if after is not None:
            yield "owner fences its lane", _become(after, at="read")
    elif owner.at == "read":
        if world.pending_ledger is None and world.ledger is not None:
            yield "owner reads its ledger", _become(world, at="last ops", found=world.ledger)
    else:
        for half in sorted(setting.halves - setting.rolled_back - owner.acknowledged):
            fact = Fact.DELIVERED if half in owner.found | owner.delivered else Fact.SETTLED
            yield from _sends(world, half, Op("commit", fact))


def _sends(world: World, half: int, op: Op) -> Iterator[Step]:
    owner, name = world.owner, f"owner's op of {half}: {op.says}, {op.fact.name.lower()}"
    tried = owner.tried | {half}
    after = sent(world, half, op)
    yield f"{name}; acknowledged", _become(after, tried=tried, acknowledged=owner.acknowledged | {half})
    yield f"{name}; not acknowledged", _become(after, tried=tried)
    yield f"{name}; lost", _become(world, tried=tried)
