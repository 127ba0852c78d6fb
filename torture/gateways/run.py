"""A fault run with two gateways: rounds of one fault each, and the oracle's word at the end."""

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import islice

from torture.effects.strike import Deed, struck
from torture.gateways.schedule import WHILE_GATEWAY_STOPS, Fault, Round, deck, schedule
from torture.gateways.system import GatewaysSystem, send_to
from torture.lanes.rounds import RoundDone, RoundsReport, torture_sending
from torture.lanes.sending import go_on
from torture.processes import all_of, send
from torture.waiting import GIVE_UP_SECONDS, NotRecoveredError

_BROUGHT_SECONDS = 6.0
"""So long a gateway stands still for a client to come where it sends again."""
NOT_EXERCISED = "No client has sent a half message to another gateway, too: the run has not done what it is for."


@dataclass
class GatewaysReport(RoundsReport):
    """A whole run."""

    sent_again: int = 0
    """Orders that clients have sent to another gateway, too."""
    twins: int = 0
    """Those of them that have several half messages."""
    twice: dict[str, list[str]] = field(default_factory=dict)
    """Orders that were delivered twice, with their half messages and what was said of each."""

    @property
    def holds_but_for_twins(self) -> bool:
        """Whether nothing is wrong but that some were delivered twice of whose half messages two were committed."""
        judged = self.judgement
        if self.defect or judged is None:
            return False
        return not (judged.lost or judged.leaked or judged.changed or judged.undecided)


Tell = Callable[[RoundDone], None]


def torture_gateways(
    seed: int, rounds: int | None = None, tell: Tell = lambda _round: None, *, brief: bool = False
) -> GatewaysReport:
    """Break gateways, their clients, and what they need, so many times; without a number for one deck."""
    report = GatewaysReport(seed)
    drawn = islice(schedule(seed, brief=brief), rounds or len(deck()))
    torture_sending(report, lambda ground: GatewaysSystem(ground, seed), drawn, _do, tell, partial(_look_back, report))
    return report


def _look_back(report: GatewaysReport, system: GatewaysSystem) -> None:
    report.sent_again, report.twins = system.twins()
    report.twice = {name: [str(half) for half in halves] for name, halves in system.twice.items()}
    if not report.sent_again:
        report.defect = report.defect or NOT_EXERCISED


def _do(system: GatewaysSystem, this: Round) -> tuple[float, bool]:
    since = _FAULTS[this.fault](system, this)
    seconds = system.wait_for_all(since, GIVE_UP_SECONDS)
    system.wait_for_all_kinds(since, GIVE_UP_SECONDS)
    return seconds, False


def _kill_gateway(system: GatewaysSystem, this: Round) -> float:
    system.gateways[this.gateway].process.kill()
    return time.time()


def _kill_both(system: GatewaysSystem, _this: Round) -> float:
    for gateway in system.gateways:
        gateway.process.kill()
    return time.time()


def _stop_gateway(system: GatewaysSystem, this: Round) -> float:
    with _stopped(system, this):
        _supervised(system, this.stopped_seconds)
    return time.time()


def _stop_and_kill_gateway(system: GatewaysSystem, this: Round) -> float:
    with _stopped(system, this):
        _supervised(system, this.stopped_seconds)
        system.gateways[this.gateway].process.kill()
    return time.time()


def _restart_broker_meanwhile(system: GatewaysSystem, this: Round) -> float:
    with _stopped(system, this):
        return _restart_broker(system, this)


def _kill_client(system: GatewaysSystem, this: Round) -> float:
    strike = system.strike_of(this, Deed.KILLED)
    with system.struck_by(strike) as wait:
        return wait(partial(_bring_about, system, this))


def _stop_client(system: GatewaysSystem, this: Round) -> float:
    """1. Stop it.  2. Others decide all that it has sent.  3. Continued, it finds its order decided, and goes on."""
    strike = system.strike_of(this, Deed.STOPPED)
    with system.struck_by(strike) as wait:
        since = wait(partial(_bring_about, system, this))  # 1
    process = system.process_of(struck(system.ground.folder, strike) or 0)
    if process is None:
        raise NotRecoveredError("the client that was stopped is not there any more")
    try:
        system.wait_for_all(since, GIVE_UP_SECONDS)  # 2
    finally:
        go_on(process)  # 3
    return since


def _stop_broker(system: GatewaysSystem, this: Round) -> float:
    """What clients have sent is not acknowledged in their time, and written at both gateways."""
    stopped = all_of(system.ground.broker.pid or 0)
    send(stopped, signal.SIGSTOP)
    try:
        _supervised(system, this.stopped_seconds)
    finally:
        send(stopped, signal.SIGCONT)
    return time.time()


def _restart_broker(system: GatewaysSystem, _this: Round) -> float:
    system.ground.broker.stop()
    system.ground.broker.start()
    return time.time()


def _kill_broker(system: GatewaysSystem, _this: Round) -> float:
    system.ground.broker.kill()
    system.ground.broker.start()
    return time.time()


def _kill_checks(system: GatewaysSystem, _this: Round) -> float:
    system.checks.kill()
    return time.time()


def _kill_job(system: GatewaysSystem, _this: Round) -> float:
    system.job.kill()
    return time.time()


def _bring_about(system: GatewaysSystem, this: Round) -> None:
    if this.step in WHILE_GATEWAY_STOPS:
        with _stopped(system, this):
            _supervised(system, _BROUGHT_SECONDS)


@contextmanager
def _stopped(system: GatewaysSystem, this: Round) -> Iterator[None]:
    process = system.gateways[this.gateway].process
    send_to(process, signal.SIGSTOP)
    try:
        yield
    finally:
        send_to(process, signal.SIGCONT)


def _supervised(system: GatewaysSystem, seconds: float) -> None:
    until = time.monotonic() + seconds
    system.wait_until(lambda: time.monotonic() > until, 2 * seconds + 60, "the time did not pass")


_FAULTS: dict[Fault, Callable[[GatewaysSystem, Round], float]] = {
    Fault.GATEWAY_KILLED: _kill_gateway,
    Fault.BOTH_KILLED: _kill_both,
    Fault.GATEWAY_STOPPED: _stop_gateway,
    Fault.STOPPED_AND_KILLED: _stop_and_kill_gateway,
    Fault.BROKER_MEANWHILE: _restart_broker_meanwhile,
    Fault.CLIENT_KILLED: _kill_client,
    Fault.CLIENT_STOPPED: _stop_client,
    Fault.BROKER_STOPPED: _stop_broker,
    Fault.BROKER_RESTARTED: _restart_broker,
    Fault.BROKER_KILLED: _kill_broker,
    Fault.CHECKS_KILLED: _kill_checks,
    Fault.JOB_KILLED: _kill_job,
}
