"""How each fault is done to a shop, to its database, or to what both need."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from torture.effects.strike import Deed
from torture.effects.striking import go_on_first
from torture.shops.schedule import Fault, Round
from torture.shops.servers import Before, Server
from torture.shops.steps import Step
from torture.shops.system import ShopsSystem

AWAY_SECONDS = 5.0
ASLEEP_SECONDS = 10.0
"""Time-out, and several checks, and what those wait for locks."""


def inject(system: ShopsSystem, this: Round) -> float:
    """Do it, and bring back what an operator would.

    Returns:
        When recovery began (``time.time()``).

    Raises:
        NotRecoveredError: nobody came to the step.
    """
    _FAULTS[this.fault](system, this)
    return time.time()


def _kill(system: ShopsSystem, this: Round) -> None:
    system.strike(this, Deed.KILLED)


def _kill_all(system: ShopsSystem, this: Round) -> None:
    for one in (system.sellers[this.kind], system.answering[this.kind]):
        one.process.kill()


def _stop(system: ShopsSystem, this: Round) -> None:
    with _asleep(system, this):
        pass


def _stop_meanwhile(system: ShopsSystem, this: Round) -> None:
    with _asleep(system, this):
        _server(system, this).crash(lambda: None)
        _server(system, this).start()


@contextmanager
def _asleep(system: ShopsSystem, this: Round) -> Iterator[None]:
    """Checks are answered by another process: a transaction that runs is waited for, one yet to begin is blocked."""
    pid, until = system.strike(this, Deed.STOPPED), time.monotonic() + ASLEEP_SECONDS
    try:
        yield
        while time.monotonic() < until:
            system.supervise()
            time.sleep(0.1)
    finally:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


def _lose_answer(system: ShopsSystem, this: Round) -> None:
    system.strike(this, Deed.FAILS)


def _cut_connections(system: ShopsSystem, this: Round) -> None:
    with _at_its_step(system, this) as before:
        _server(system, this).cut_connections(before)


def _crash(system: ShopsSystem, this: Round) -> None:
    with _at_its_step(system, this) as before:
        _server(system, this).crash(before)
        _server(system, this).start()


def _restart(system: ShopsSystem, this: Round) -> None:
    with _at_its_step(system, this) as before:
        _server(system, this).shut_down(before)
        _server(system, this).start()


def _take_away(system: ShopsSystem, this: Round) -> None:
    _server(system, this).shut_down(lambda: None)
    time.sleep(AWAY_SECONDS)
    _server(system, this).start()


@contextmanager
def _at_its_step(system: ShopsSystem, this: Round) -> Iterator[Before]:
    """Where the round has a step, a shop is held there; gives what is to be done right before the fault."""
    if this.step is None:
        yield lambda: None
        return
    system.strike(this, Deed.HELD)

    def go_on() -> None:
        system.let_go(this)

    try:
        yield go_on_first(go_on, this.seed) if this.step is Step.COMMITTING else lambda: None
    finally:
        go_on()


def _kill_job(system: ShopsSystem, _this: Round) -> None:
    system.job.kill_driver()


def _restart_broker(system: ShopsSystem, _this: Round) -> None:
    system.ground.broker.stop()
    system.ground.broker.start()


def _kill_consumer(system: ShopsSystem, _this: Round) -> None:
    system.consumer.process.kill()


def _server(system: ShopsSystem, this: Round) -> Server:
    return system.databases[this.kind.where]


_FAULTS: dict[Fault, Callable[[ShopsSystem, Round], None]] = {
    Fault.KILLED: _kill,
    Fault.ALL_KILLED: _kill_all,
    Fault.STOPPED: _stop,
    Fault.STOPPED_MEANWHILE: _stop_meanwhile,
    Fault.ANSWER_LOST: _lose_answer,
    Fault.CONNECTIONS_CUT: _cut_connections,
    Fault.DATABASE_CRASHED: _crash,
    Fault.DATABASE_RESTARTED: _restart,
    Fault.DATABASE_AWAY: _take_away,
    Fault.JOB_KILLED: _kill_job,
    Fault.BROKER_RESTARTED: _restart_broker,
    Fault.CONSUMER_KILLED: _kill_consumer,
}
