"""Has one consumer of the group struck at a step, and says which."""

import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from torture.effects.schedule import Round
from torture.effects.steps import Step
from torture.effects.strike import Deed, Strike, give, release, struck, withdraw
from torture.effects.system import EffectsSystem, Member
from torture.processes import Process
from torture.waiting import NotRecoveredError

_COME_SECONDS = 60.0
"""For a consumer to come to a step."""
_END_SECONDS = 10.0
_LOOK_SECONDS = 0.02
_COMMIT_SECONDS = 0.002
"""About as long as a commit takes, from when it is asked for."""


def strike_one(
    system: EffectsSystem,
    this: Round,
    bring_about: Callable[[], object] = lambda: None,
    *,
    deed: Deed = Deed.KILLED,
) -> Member:
    """Order it, wait until it was carried out, and return the consumer that came there.

    ``bring_about`` makes a consumer come to the step. If it returns a process, it is called again when that process has
    ended without coming there.

    Raises:
        NotRecoveredError: nobody came to the step.
    """
    folder = system.ground.folder
    strike = _strike(this, deed)
    there_are = {member.process.pid: (member, member.process) for member in system.members}
    give(folder, strike)
    coming = bring_about()
    deadline = time.monotonic() + _COME_SECONDS
    try:
        while True:
            pid = struck(folder, strike)
            if pid in there_are:
                break
            if time.monotonic() > deadline:
                raise NotRecoveredError(f"Within {_COME_SECONDS:.0f} s no consumer came to the step '{this.step}'.")
            if isinstance(coming, Process) and coming.exit_status is not None:
                coming = bring_about()
            system.supervise()
            there_are |= {member.process.pid: (member, member.process) for member in system.members}
            time.sleep(_LOOK_SECONDS)
    finally:
        withdraw(folder)
    member, process = there_are[pid]
    if deed is Deed.KILLED:
        process.wait(_END_SECONDS)
    return member


@contextmanager
def held(system: EffectsSystem, this: Round) -> Iterator[Callable[[], None]]:
    """One is held at the step, and goes on at the end, or when what this gives is called."""
    strike_one(system, this, deed=Deed.HELD)

    def go_on() -> None:
        release(system.ground.folder, _strike(this, Deed.HELD))

    try:
        yield go_on
    finally:
        go_on()


def go_on_first(go_on: Callable[[], object], seed: int) -> Callable[[], None]:
    """What has one that is held before a commit go on, and lets the commit begin."""

    def commits() -> None:
        go_on()
        time.sleep(random.Random(seed).uniform(0, _COMMIT_SECONDS))  # noqa: S311  (dice, no secret)

    return commits


def _strike(this: Round, deed: Deed) -> Strike:
    return Strike(this.step or Step.LISTENER_BEGUN, this.number, this.after, deed=deed)
