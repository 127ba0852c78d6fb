"""A fault run with lanes: rounds of one fault each, and the oracle's word at the end."""

import shutil
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from checkback.local import LocalKafka
from torture.clock import SettableClock
from torture.effects.strike import Deed
from torture.ground import Ground
from torture.lanes.schedule import Fault, Round, deck, schedule
from torture.lanes.steps import LaneStep
from torture.lanes.system import USUAL, LanesSystem, go_on
from torture.oracle import Judgement
from torture.waiting import GIVE_UP_SECONDS, NotRecoveredError

READABLE_SECONDS = 15.0
"""What is promised of a dead producer's messages; one that was stopped, or a broker that is away, takes longer."""
_DYING = frozenset({Fault.KILLED, Fault.ALL_KILLED, Fault.FENCED_AND_KILLED})


@dataclass(frozen=True)
class LanesRound:
    """One round as it went."""

    number: int
    fault: str
    seconds: float
    """From the fault until all could be read that had been sent before it."""
    of_dead: bool
    """Whether producers died, and all else was well."""
    stops: list[str]


@dataclass
class LanesReport:
    """A whole run."""

    seed: int
    rounds: list[LanesRound] = field(default_factory=list)
    seconds: float = 0.0
    judgement: Judgement | None = None
    """What the oracle says in the end; None: it never came to that."""
    rejected: Mapping[str, int] = field(default_factory=dict)
    """Why records were rejected, and how many."""
    defect: str = ""
    """What ended the run early, if anything did."""
    logs: str = ""
    """The folder, where it was kept."""

    @property
    def holds(self) -> bool:
        """Whether nothing was lost, repeated, leaked or changed."""
        return not self.defect and self.judgement is not None and self.judgement.holds

    @property
    def inconclusive(self) -> bool:
        """Whether nothing is known to be wrong, but not all had been decided when the time was over."""
        return not self.defect and self.judgement is not None and self.judgement.nothing_wrong and not self.holds

    @property
    def until_readable(self) -> list[float]:
        """Seconds until a dead producer's messages could be read, of all rounds in which nothing else happened."""
        return sorted(one.seconds for one in self.rounds if one.of_dead)


Tell = Callable[[LanesRound], None]


def torture_lanes(
    seed: int, rounds: int | None = None, tell: Tell = lambda _round: None, *, brief: bool = False
) -> LanesReport:
    """Break producers that deliver themselves, and what they need, so many times; without a number for one deck.

    Everything lies in a temporary folder; the report says when it is kept.
    """
    place = Path(tempfile.mkdtemp(prefix="checkback-torture-"))
    ground = Ground(
        place, LocalKafka(place / "kafka", start_seconds=GIVE_UP_SECONDS), SettableClock(place), executors=0
    )
    report = LanesReport(seed)
    started = time.monotonic()
    try:
        ground.prepare()
        with LanesSystem(ground, seed, {} if brief else USUAL) as system:
            _rounds(system, report, islice(schedule(seed, brief=brief), rounds or len(deck())), tell)
    finally:
        ground.close()
    report.seconds = time.monotonic() - started
    if report.holds:
        shutil.rmtree(place, ignore_errors=True)
    else:
        report.logs = str(place)
    return report


def _rounds(system: LanesSystem, report: LanesReport, rounds: "islice[Round]", tell: Tell) -> None:
    try:
        system.begin(GIVE_UP_SECONDS)
        for this in rounds:
            done = _round(system, this)
            report.rounds.append(done)
            tell(done)
            _refuse_harm(system.judge(), this)
    except NotRecoveredError as error:
        report.defect = str(error)
    try:
        report.judgement = system.come_to_rest()
    except NotRecoveredError as error:
        report.defect = report.defect or str(error)
        return
    report.rejected = system.rejected()
    if not report.defect and not report.judgement.nothing_wrong:
        report.defect = "Not all is as it was sent."


def _refuse_harm(judged: Judgement, this: Round) -> None:
    if judged.repeated or judged.leaked or judged.changed:
        raise NotRecoveredError(f"Round {this.number}, {this}: {judged}.")


def _round(system: LanesSystem, this: Round) -> LanesRound:
    time.sleep(this.delay_seconds)
    system.stops = []
    try:
        seconds = _FAULTS[this.fault](system, this)
    except NotRecoveredError as error:
        raise NotRecoveredError(f"Round {this.number}, {this}: {error}") from error
    return LanesRound(this.number, str(this), round(seconds, 1), this.fault in _DYING, list(system.stops))


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
    process = system.direct(this.transport).process
    system.fence(process)
    since = time.time()
    seconds = system.wait_for_all(since, GIVE_UP_SECONDS)
    system.wait_for_one_of(process, since, GIVE_UP_SECONDS)
    return seconds


def _fence_and_kill(system: LanesSystem, this: Round) -> float:
    process = system.direct(this.transport).process
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
