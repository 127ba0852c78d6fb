"""How each fault is done to the consumers' database: connections cut, an answer lost, the server down."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from torture.effects.schedule import Fault, Round
from torture.effects.steps import Step
from torture.effects.strike import Deed
from torture.effects.striking import go_on_first, held, strike_one
from torture.effects.system import EffectsSystem
from torture.waiting import NotRecoveredError

AWAY_SECONDS = 4.0
"""Shorter than what consumers' tries take, so that nothing is a dead letter for that."""
_CUT_SECONDS = 30.0
_CUT_AGAIN_SECONDS = 0.1


def _cut_connections(system: EffectsSystem, this: Round) -> float:
    """Consumers have some as soon as they have handled a message."""
    deadline = time.monotonic() + _CUT_SECONDS
    with _at_its_step(system, this) as before:
        while not system.database.cut_connections(before):
            if time.monotonic() > deadline:
                raise NotRecoveredError("No consumer was connected to its database.")
            time.sleep(_CUT_AGAIN_SECONDS)
    return time.time()


def _lose_answer(system: EffectsSystem, this: Round) -> float:
    """A consumer's commit was done, and it is not told so."""
    strike_one(system, this, deed=Deed.FAILS)
    return time.time()


def _crash(system: EffectsSystem, this: Round) -> float:
    with _at_its_step(system, this) as before:
        system.database.crash(before)
        system.database.start()
    return time.time()


def _restart(system: EffectsSystem, this: Round) -> float:
    with _at_its_step(system, this) as before:
        system.database.shut_down(before)
        system.database.start()
    return time.time()


def _take_away(system: EffectsSystem, _this: Round) -> float:
    system.database.shut_down(lambda: None)
    time.sleep(AWAY_SECONDS)
    system.database.start()
    return time.time()


@contextmanager
def _at_its_step(system: EffectsSystem, this: Round) -> Iterator[Callable[[], None]]:
    """Where the round has a step, a consumer is held there. Gives what is to be done right before the fault.

    One that is about to commit goes on then, so that its commit is under way; all others go on after it.
    """
    if this.step is None:
        yield lambda: None
        return
    with held(system, this) as go_on:
        yield go_on_first(go_on, this.seed) if this.step is Step.COMMITTING else lambda: None


OF_DATABASE: Mapping[Fault, Callable[[EffectsSystem, Round], float]] = {
    Fault.CONNECTIONS_CUT: _cut_connections,
    Fault.ANSWER_LOST: _lose_answer,
    Fault.DATABASE_CRASHED: _crash,
    Fault.DATABASE_RESTARTED: _restart,
    Fault.DATABASE_AWAY: _take_away,
}
