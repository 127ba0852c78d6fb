"""Tries every order of steps, and says what is wrong with a world."""

import random
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace

from tests.state.lanes.job import of_job
from tests.state.lanes.owner import of_owner
from tests.state.lanes.setting import Setting
from tests.state.lanes.settlers import of_settler
from tests.state.lanes.world import OVER, Fact, Known, Op, Owner, Step, World, init, of_kafka, sent


def steps(world: World, setting: Setting) -> Iterator[Step]:
    """All that may happen next."""
    yield from of_kafka(world, expires=setting.expires)
    yield from of_owner(world, setting)
    for at in range(len(setting.settlers)):
        yield from of_settler(world, setting, at)
    yield from of_job(world, setting)


@dataclass(frozen=True)
class Explored:
    """What a search has seen."""

    worlds: int
    steps: int
    wrong: str
    """Empty: nothing."""
    history: tuple[str, ...] = ()
    """The shortest way there."""


def explore(setting: Setting) -> Explored:
    """Every world that can be reached, the nearest first, until something is wrong."""
    first = setting.begin()
    came_from: dict[World, tuple[World, str] | None] = {first: None}
    waiting, taken = deque([first]), 0
    remains: set[World] = set()
    while waiting:
        world = waiting.popleft()
        said = wrong(world, setting)
        left = world._replace(holder="", owner=Owner(), settlers=())  # all that the dead leave
        if left not in remains:
            remains.add(left)
            said = said or wrong_when_all_die(left, setting)
        if said:
            return Explored(len(came_from), taken, said, _history(came_from, world))
        for name, after in steps(world, setting):
            taken += 1
            if after not in came_from:
                came_from[after] = (world, name)
                waiting.append(after)
    return Explored(len(came_from), taken, "")


def wander(setting: Setting, seed: int, length: int) -> Explored:
    """One history at random."""
    chooser, world = random.Random(seed), setting.begin()
    names: list[str] = []
    for taken in range(length):
        if said := wrong(world, setting) or wrong_when_all_die(world, setting):
            return Explored(taken, taken, said, tuple(names))
        following = [step for step in steps(world, setting) if step[1] != world]
        if not following:
            break
        name, world = chooser.choice(following)
        names.append(name)
    return Explored(len(names), len(names), "")


def _history(came_from: dict[World, tuple[World, str] | None], world: World) -> tuple[str, ...]:
    names = []
    while (before := came_from[world]) is not None:
        world, name = before
        names.append(name)
    return tuple(reversed(names))


def wrong(world: World, setting: Setting) -> str:
    """What must never be, at no moment."""
    for half, row in enumerate(world.rows):
        visible = world.visible[half]
        if visible > 1:
            return f"{half} is repeated"
        if row.known == Known.ROLLED_BACK and (visible or half in world.by_lane):
            return f"{half} is readable, and was decided otherwise"
        if row.known == Known.COMMITTED and not visible and half not in world.unmarked:
            return f"{half} is lost"
        if half in setting.rolled_back and visible and not setting.others_commit:
            return f"{half} has leaked"
    return ""


def wrong_when_all_die(world: World, setting: Setting) -> str:
    """What is wrong in the end when nobody of this world takes a step any more, and one check service comes."""
    calm = replace(setting, timers=(), quota=False, flaws=frozenset())
    world = _quiet(world, calm)
    for half in sorted(setting.halves):
        if world.rows[half].known in OVER:
            continue
        after = init(world, "last")
        if after is None or after.ledger is None:
            continue  # nobody can know: left to people
        fact = Fact.DELIVERED if half in after.ledger else Fact.SETTLED
        says = "rollback" if half in setting.rolled_back and fact == Fact.SETTLED else "commit"
        world = _quiet(sent(after, half, Op(says, fact, operator=True)), calm)
        if world.rows[half].known not in OVER:
            return f"{half} is never decided"
    return wrong(world, setting)


def _quiet(world: World, calm: Setting) -> World:
    """When Kafka has done what it was told, and the job has read all."""
    counts = tuple(count + (half in world.unmarked) for half, count in enumerate(world.visible))
    ledger = world.ledger if world.pending_ledger is None else world.pending_ledger
    world = world._replace(visible=counts, unmarked=frozenset(), ledger=ledger, pending_ledger=None)
    while (step := next(of_job(world, calm), None)) is not None:
        world = step[1]
    return world
