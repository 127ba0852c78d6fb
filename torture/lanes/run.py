"""A fault run with lanes: rounds of one fault each, and the oracle's word at the end."""

import time
from collections.abc import Callable
from itertools import islice

from torture.effects.strike import Deed
from torture.lanes.rounds import RoundDone, RoundsReport, torture_sending
from torture.lanes.schedule import Fault, Round, deck, schedule
from torture.lanes.sending import go_on
from torture.lanes.steps import LaneStep
from torture.lanes.system import USUAL, LanesSystem
from torture.waiting import GIVE_UP_SECONDS

READABLE_SECONDS = 15.0
"""What is promised of a dead producer's messages; one that was stopped, or a broker that is away, takes longer."""
_DYING = frozenset({Fault.KILLED, Fault.ALL_KILLED, Fault.FENCED_AND_KILLED})


class LanesReport(RoundsReport):
    """A whole run."""

    @property
    def until_readable(self) -> list[float]:
        """Seconds until a dead producer's messages could be read, of all rounds in which nothing else happened."""
        return sorted(one.seconds for one in self.rounds if one.of_dead)


Tell = Callable[[RoundDone], None]


def torture_lanes(
    seed: int, rounds: int | None = None, tell: Tell = lambda _round: None, *, brief: bool = False
) -> LanesReport:
    """Break producers that deliver themselves, and what they need, so many times; without a number for one deck."""
    report = LanesReport(seed)
    drawn = islice(schedule(seed, brief=brief), rounds or len(deck()))
    settings = {} if brief else USUAL
    torture_sending(report, lambda ground: LanesSystem(ground, seed, settings), drawn, _do, tell)
    return report


def _do(system: LanesSystem, this: Round) -> tuple[float, bool]:
    return _FAULTS[this.fault](system, this), this.fault in _DYING


def _kill(system: LanesSystem, this: Round) -> float:
    _, since = system.strike(this, Deed.KILLED)
    return system.wait_for_all(since, GIVE_UP_SECONDS)


def _kill_all(system: LanesSystem, _this: Round) -> float:
    for sender in system.senders:
        sender.process.kill()
    return system.wait_for_all(time.time(), GIVE_UP_SECONDS)


def _stop(system: LanesSystem, this: Round) -> float:
    """1. Stop it.  2. Others decide all that it has sent.  3. Continued, it finds itself fenced, and makes another."""
    process, since = system.strike(this, Deed.STOPPED)  # 1
    try:
        seconds = system.wait_for_all(since, GIVE_UP_SECONDS)  # 2
    finally:
        go_on(process)  # 3
    system.wait_for_one_of(process, time.time(), GIVE_UP_SECONDS)
    return seconds


def _fence(system: LanesSystem, this: Round) -> float:
    process = system.direct(this).process
    system.fence(process)
    since = time.time()
    seconds = system.wait_for_all(since, GIVE_UP_SECONDS)
    system.wait_for_one_of(process, since, GIVE_UP_SECONDS)
    return seconds


def _fence_and_kill(system: LanesSystem, this: Round) -> float:
    process = system.direct(this).process
    with system.struck_at(this, Deed.KILLED) as wait:
        since = wait(lambda: system.fence(process))
    return system.wait_for_all(since, GIVE_UP_SECONDS)


def _kill_checks(system: LanesSystem, this: Round) -> float:
    strike = system.strike_checks(this, Deed.KILLED)
    _, since = system.strike(this, Deed.KILLED, LaneStep.LEDGER_ADDED)
    system.wait_for_checks(strike)
    return system.wait_for_all(since, GIVE_UP_SECONDS)


def _stop_checks(system: LanesSystem, this: Round) -> float:
    """Two check services believe that they settle the same lane."""
    strike = system.strike_checks(this, Deed.STOPPED)
    _, since = system.strike(this, Deed.KILLED, LaneStep.COMMITTED)
    system.wait_for_checks(strike)
    asleep = system.another_check_service()
    try:
        seconds = system.wait_for_all(since, GIVE_UP_SECONDS)
    finally:
        go_on(asleep)
    asleep.terminate()
    asleep.wait(30)
    return seconds


def _restart_broker(system: LanesSystem, _this: Round) -> float:
    system.ground.broker.stop()
    system.ground.broker.start()
    return system.wait_for_all(time.time(), GIVE_UP_SECONDS)


def _kill_broker(system: LanesSystem, _this: Round) -> float:
    system.ground.broker.kill()
    system.ground.broker.start()
    return system.wait_for_all(time.time(), GIVE_UP_SECONDS)


def _restart_broker_meanwhile(system: LanesSystem, this: Round) -> float:
    process, since = system.strike(this, Deed.STOPPED)
    try:
        system.ground.broker.stop()
        system.ground.broker.start()
        seconds = system.wait_for_all(since, GIVE_UP_SECONDS)
    finally:
        go_on(process)
    system.wait_for_one_of(process, time.time(), GIVE_UP_SECONDS)
    return seconds


_FAULTS: dict[Fault, Callable[[LanesSystem, Round], float]] = {
    Fault.KILLED: _kill,
    Fault.STOPPED: _stop,
    Fault.ALL_KILLED: _kill_all,
    Fault.FENCED: _fence,
    Fault.FENCED_AND_KILLED: _fence_and_kill,
    Fault.CHECKS_KILLED: _kill_checks,
    Fault.CHECKS_STOPPED: _stop_checks,
    Fault.BROKER_RESTARTED: _restart_broker,
    Fault.BROKER_KILLED: _kill_broker,
    Fault.BROKER_RESTARTED_MEANWHILE: _restart_broker_meanwhile,
}
