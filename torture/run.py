"""A fault run: rounds of one fault each, and the oracle's word at the end."""

import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from torture import clock
from torture.faults import inject
from torture.ground import Ground, make_ground
from torture.oracle import Judgement
from torture.schedule import Fault, Round, schedule
from torture.system import NotRecoveredError, System

NEEDS_CLOCK = frozenset({Fault.CLOCK_BACK_SECONDS, Fault.CLOCK_BACK_HOUR})


@dataclass(frozen=True)
class RoundReport:
    """One round as it went."""

    number: int
    fault: str
    recovery_seconds: float
    """From the fault, or from the moment an operator had put things right, to the first new delivery."""
    stops: list[str]
    """What jobs said that ended by themselves in this round."""


@dataclass
class TortureReport:
    """A whole run."""

    seed: int
    rounds: list[RoundReport] = field(default_factory=list)
    seconds: float = 0.0
    left_out: list[str] = field(default_factory=list)
    """Faults that this machine cannot do."""
    defect: str = ""
    """What ended the run early, if anything did."""
    judgement: Judgement | None = None

    @property
    def holds(self) -> bool:
        """Whether every promise held in every round."""
        return not self.defect and self.judgement is not None and self.judgement.holds


Tell = Callable[[RoundReport], None]


def torture(
    seed: int, *, rounds: int | None = None, minutes: float | None = None, tell: Tell | None = None
) -> TortureReport:
    """Run so many rounds, or for so long.

    Everything lies in a temporary folder, which is kept when something did not hold; the report says so.
    """
    ground = make_ground()
    report = TortureReport(seed, left_out=[] if clock.can_be_set() else sorted(NEEDS_CLOCK))
    started = time.monotonic()

    def enough(done: int) -> bool:
        late = minutes is not None and time.monotonic() - started >= minutes * 60
        return late or (rounds is not None and done >= rounds)

    try:
        ground.prepare()
        _rounds(ground, report, enough, tell or (lambda _round: None))
    finally:
        ground.broker.stop()
    report.seconds = time.monotonic() - started
    if report.holds:
        shutil.rmtree(ground.folder, ignore_errors=True)
    return report


def _rounds(ground: Ground, report: TortureReport, enough: Callable[[int], bool], tell: Tell) -> None:
    without = frozenset(Fault(name) for name in report.left_out)
    with System(ground, report.seed) as system:
        try:
            system.wait_for_delivery(time.time())
            for this in schedule(report.seed, without):
                if enough(len(report.rounds)):
                    break
                done = _round(system, this)
                report.rounds.append(done)
                tell(done)
                _refuse_harm(system.judge(), this)
        except NotRecoveredError as error:
            report.defect = f"{error} Logs are in {ground.folder}."
        report.judgement = system.come_to_rest()
        if not report.defect and not report.judgement.holds:
            report.defect = f"{report.judgement}. Logs are in {ground.folder}."


def _refuse_harm(judgement: Judgement, this: Round) -> None:
    if judgement.repeated or judgement.leaked or judgement.changed:
        raise NotRecoveredError(f"Round {this.number}, {this}: {judgement}.")


def _round(system: System, this: Round) -> RoundReport:
    time.sleep(this.delay_seconds)  # anywhere in a batch: that is what is tested
    system.begin_round()
    since = inject(system, this)
    system.recoveries.append(system.wait_for_delivery(since))
    return RoundReport(this.number, str(this), round(max(system.recoveries), 1), list(system.stops))
