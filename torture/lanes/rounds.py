"""Rounds of one fault each, and the oracle's word at the end: what runs of lanes, gateways and networks share."""

import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, Self, TypeVar

from checkback.local import LocalKafka
from torture.clock import SettableClock
from torture.ground import Ground
from torture.oracle import Judgement
from torture.waiting import GIVE_UP_SECONDS, NotRecoveredError


class Drawn(Protocol):
    """A fault as a seed has drawn it."""

    @property
    def number(self) -> int:
        """Of the round."""

    @property
    def delay_seconds(self) -> float:
        """Before it."""


class FaultySystem(Protocol):
    """What rounds are done to; it runs as long as its ``with`` block."""

    stops: list[str]
    """What ended by itself in this round, and its last words."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    def begin(self, seconds: float) -> None:
        """Send, and wait for the first messages; raises NotRecoveredError when they do not come in time."""

    def judge(self) -> Judgement:
        """Compare what was sent with what is readable now."""

    def harmed(self, judged: Judgement) -> bool:
        """Whether something is wrong that no time repairs."""

    def come_to_rest(self) -> Judgement:
        """Stop sending, wait until all is readable that will be, and judge."""

    def rejected(self) -> Mapping[str, int]:
        """Reasons for which the job has rejected records, and how many."""


def usual_broker(folder: Path) -> LocalKafka:
    """A broker that clients reach by its own address."""
    return LocalKafka(folder, start_seconds=GIVE_UP_SECONDS)


S = TypeVar("S", bound=FaultySystem)
R = TypeVar("R", bound=Drawn)


@dataclass(frozen=True)
class RoundDone:
    """One round as it went."""

    number: int
    fault: str
    seconds: float
    """From the fault until all could be read that had been sent before it."""
    of_dead: bool
    """Whether producers died, and all else was well."""
    stops: list[str]


@dataclass
class RoundsReport:
    """A whole run."""

    seed: int
    rounds: list[RoundDone] = field(default_factory=list)
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


def torture_sending(
    report: RoundsReport,
    make: Callable[[Ground], S],
    rounds: Iterable[R],
    do: Callable[[S, R], tuple[float, bool]],
    tell: Callable[[RoundDone], None],
    look_back: Callable[[S], None] = lambda _system: None,
    broker: Callable[[Path], LocalKafka] = usual_broker,
) -> None:
    """Do so to a system, round after round, and have the report say what came of it.

    Everything lies in a temporary folder; the report says when it is kept. ``do`` gives the seconds until all could be
    read, and whether only producers died; ``look_back`` is called in the end, while the broker still runs.
    """
    place = Path(tempfile.mkdtemp(prefix="checkback-torture-"))
    ground = Ground(place, broker(place / "kafka"), SettableClock(place), executors=0)
    started = time.monotonic()
    try:
        ground.prepare()
        with make(ground) as system:
            _rounds(system, report, rounds, do, tell)
            look_back(system)
    finally:
        ground.close()
    report.seconds = time.monotonic() - started
    if report.holds:
        shutil.rmtree(place, ignore_errors=True)
    else:
        report.logs = str(place)


def _rounds(
    system: S,
    report: RoundsReport,
    rounds: Iterable[R],
    do: Callable[[S, R], tuple[float, bool]],
    tell: Callable[[RoundDone], None],
) -> None:
    try:
        system.begin(GIVE_UP_SECONDS)
        for this in rounds:
            done = _round(system, this, do)
            report.rounds.append(done)
            tell(done)
            _refuse_harm(system, this)
    except NotRecoveredError as error:
        report.defect = str(error)
    try:
        report.judgement = system.come_to_rest()
    except NotRecoveredError as error:
        report.defect = report.defect or str(error)
        return
    report.rejected = system.rejected()
    if not report.defect and (report.judgement.lost or system.harmed(report.judgement)):
        report.defect = "Not all is as it was sent."


def _refuse_harm(system: S, this: R) -> None:
    judged = system.judge()
    if system.harmed(judged):
        raise NotRecoveredError(f"Round {this.number}, {this}: {judged}.")


def _round(system: S, this: R, do: Callable[[S, R], tuple[float, bool]]) -> RoundDone:
    time.sleep(this.delay_seconds)
    system.stops = []
    try:
        seconds, of_dead = do(system, this)
    except NotRecoveredError as error:
        raise NotRecoveredError(f"Round {this.number}, {this}: {error}") from error
    return RoundDone(this.number, str(this), round(seconds, 1), of_dead, list(system.stops))
