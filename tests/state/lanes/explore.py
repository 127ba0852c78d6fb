"""Tries every order of steps, and reports the first violation."""

import random
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TypeVar

from tests.state.lanes.job import of_job
from tests.state.lanes.kafka import NONE, aborted, init, of_kafka
from tests.state.lanes.owner import of_owner
from tests.state.lanes.setting import Setting
from tests.state.lanes.settlers import of_settler
from tests.state.lanes.world import OVER, Fact, Known, Op, Owner, Step, World, sent

W = TypeVar("W", bound=Hashable)


@dataclass(frozen=True)
class Explored:
    """The result of a search."""

    worlds: int
    steps: int
    wrong: str
    """The violation; empty if there is none."""
    history: tuple[str, ...] = ()
    """The shortest way to it."""


def search(
    first: W, steps: Callable[[W], Iterable[tuple[str, W]]], violations: Callable[[W], Iterable[str]], sought: str = ""
) -> Explored:
    """Every world that can be reached, the nearest first, until there is a violation whose text contains ``sought``."""
    came_from: dict[W, tuple[W, str] | None] = {first: None}
    waiting, taken = deque([first]), 0
    while waiting:
        world = waiting.popleft()
        for violation in violations(world):
            if sought in violation:
                return Explored(len(came_from), taken, violation, _history(came_from, world))
        for name, after in steps(world):
            taken += 1
            step = (world, name)
            if came_from.setdefault(after, step) is step:  # looks the world up once
                waiting.append(after)
    return Explored(len(came_from), taken, "")


def explore(setting: Setting, sought: str = "") -> Explored:
    """Search all worlds of a lane."""
    remains: set[World] = set()

    def violations(world: World) -> Iterator[str]:
        yield from wrong(world, setting)
        left = _left(world)
        if left not in remains:
            remains.add(left)
            yield from wrong_when_all_die(left, setting)

    return search(setting.begin(), lambda world: steps(world, setting), violations, sought)


def steps(world: World, setting: Setting) -> Iterator[Step]:
    """All that may happen next."""
    for name, kafka in of_kafka(world.kafka, expires=setting.expires, late=setting.late):
        yield name, world._replace(kafka=kafka)
    yield from of_owner(world, setting)
    for at in range(len(setting.settlers)):
        yield from of_settler(world, setting, at)
    yield from of_job(world, setting)


def wander(setting: Setting, seed: int, length: int) -> Explored:
    """One history at random."""
    chooser, world = random.Random(seed), setting.begin()
    names: list[str] = []
    for taken in range(length):
        for violation in (*wrong(world, setting), *wrong_when_all_die(_left(world), setting)):
            return Explored(taken, taken, violation, tuple(names))
        following = [step for step in steps(world, setting) if step[1] != world]
        if not following:
            break
        name, world = chooser.choice(following)
        names.append(name)
    return Explored(len(names), len(names), "")


def _history(came_from: dict[W, tuple[W, str] | None], world: W) -> tuple[str, ...]:
    names = []
    while (before := came_from[world]) is not None:
        world, name = before
        names.append(name)
    return tuple(reversed(names))


def wrong(world: World, setting: Setting) -> Iterator[str]:
    """Violations at this moment."""
    kafka = world.kafka
    for half, row in enumerate(world.rows):
        visible = kafka.visible[half]
        if visible > 1:
            yield f"{half} is repeated"
        if row.known == Known.ROLLED_BACK and (visible or half in kafka.committed):
            yield f"{half} is readable, and was decided otherwise"
        if row.known == Known.COMMITTED and not visible and half not in kafka.unmarked:
            yield f"{half} is lost"
        if half in setting.rolled_back and visible and not setting.others_commit:
            yield f"{half} has leaked"
    for group in setting.groups:
        if NONE < group & kafka.committed < group:
            yield f"{sorted(group)} is torn"


def _left(world: World) -> World:
    """What remains of a world in which all processes die."""
    kafka = aborted(world.kafka)._replace(holder="", late=frozenset(), resets=0)
    return world._replace(kafka=kafka, owner=Owner(), settlers=())


def wrong_when_all_die(world: World, setting: Setting) -> Iterator[str]:
    """Violations in the end, when no process of this world takes another step, and one check service starts."""
    calm = replace(setting, timers=(), quota=False, flaws=frozenset())
    world = _quiet(world, calm)
    for half in sorted(setting.halves):
        if world.rows[half].known in OVER:
            continue
        kafka = init(world.kafka, "last")
        if kafka is None or kafka.ledger is None:
            continue  # the check service cannot decide; an operator does
        fact = Fact.DELIVERED if half in kafka.ledger else Fact.SETTLED
        says = "rollback" if half in setting.rolled_back and fact == Fact.SETTLED else "commit"
        settled = sent(world._replace(kafka=kafka), half, Op(says, fact, operator=True))
        world = _quiet(settled, calm)
        if world.rows[half].known not in OVER:
            yield f"{half} is never decided"
    yield from wrong(world, setting)


def _quiet(world: World, calm: Setting) -> World:
    """When Kafka has done what it was told, and the job has read all."""
    kafka = world.kafka
    counts = tuple(count + (half in kafka.unmarked) for half, count in enumerate(kafka.visible))
    ledger = kafka.ledger if kafka.pending_ledger is None else kafka.pending_ledger
    kafka = kafka._replace(visible=counts, unmarked=NONE, ledger=ledger, pending_ledger=None)
    world = world._replace(kafka=kafka)
    while (step := next(of_job(world, calm), None)) is not None:
        world = step[1]
    return world
