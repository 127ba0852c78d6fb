"""A fault run in which Kafka forgets: rounds, each judged at rest."""

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from checkback.consumer import StartAt
from checkback.local import LocalKafka
from torture.clock import SettableClock
from torture.effects.database import in_file
from torture.effects.oracle import Verdict
from torture.effects.run import BROKER, EffectsRound, prepare
from torture.forgetting import made_again, quiet
from torture.forgetting.system import ForgettingSystem
from torture.ground import Ground
from torture.waiting import GIVE_UP_SECONDS, NotRecoveredError

_MOST_BROKEN = 10
"""After so many rounds that did not hold a run ends."""

Round = quiet.Quiet | made_again.Forgotten
Tell = Callable[[EffectsRound], None]


@dataclass(frozen=True)
class Deck:
    """What is done, and to what broker."""

    rounds: Iterator[Round]
    properties: Mapping[str, str]


@dataclass
class ForgettingReport:
    """A whole run."""

    seed: int
    rounds: list[EffectsRound] = field(default_factory=list)
    seconds: float = 0.0
    verdict: Verdict | None = None
    """What the oracle says of all rounds; None: it never came to that."""
    defects: list[str] = field(default_factory=list)
    """What did not hold, by round."""
    gone: int = 0
    """Orders that may be lost: they lay in a topic that was deleted."""
    logs: str = ""
    """The folder, where it was kept."""

    @property
    def holds(self) -> bool:
        """Whether every promise held in every round."""
        return not self.defects and self.verdict is not None


def quiet_deck(seed: int, seconds: float = quiet.QUIET_SECONDS) -> Deck:
    """All expiries shortened, and nothing done for ``seconds``."""
    return Deck(quiet.schedule(seed, seconds), BROKER | quiet.BROKER)


def made_again_deck(seed: int) -> Deck:
    """Topics made again, and cut short."""
    return Deck(made_again.schedule(seed), BROKER)


def torture_forgetting(
    seed: int, rounds: int, deck: Deck, tell: Tell = lambda _round: None, show: Callable[[str], None] = print
) -> ForgettingReport:
    """Have Kafka forget so many times. Everything lies in a temporary folder. ``show`` is told where it is."""
    place = Path(tempfile.mkdtemp(prefix="checkback-torture-"))
    show(f"Everything lies in {place}.")
    broker = LocalKafka(place / "kafka", start_seconds=GIVE_UP_SECONDS, properties=deck.properties)
    ground = Ground(place, broker, SettableClock(place), None, executors=0)
    report = ForgettingReport(seed)
    started = time.monotonic()
    try:
        database = in_file(place)
        prepare(ground, database)
        with ForgettingSystem(ground, seed, database) as system:
            _run(system, report, rounds, deck, tell)
    finally:
        broker.stop()
    report.seconds = time.monotonic() - started
    if report.holds:
        shutil.rmtree(place, ignore_errors=True)
    else:
        report.logs = str(place)
    return report


def _run(system: ForgettingSystem, report: ForgettingReport, rounds: int, deck: Deck, tell: Tell) -> None:
    try:
        system.wait_for_effects(system.begin(GIVE_UP_SECONDS), GIVE_UP_SECONDS)
    except NotRecoveredError as error:
        report.defects.append(str(error))
        return
    system.start_at = StartAt.LAST  # from now on the group is a known one
    system.rest()
    for this in deck.rounds:
        if len(report.rounds) == rounds or len(report.defects) == _MOST_BROKEN:
            break
        done = _round(system, this)
        report.rounds.append(done)
        if done.wrong:
            report.defects.append(f"Round {this.number}, {this}: {done.wrong}")
        tell(done)
    report.verdict, report.gone = system.verdict(), len(system.gone)


def _round(system: ForgettingSystem, this: Round) -> EffectsRound:
    began, took = time.time(), 0.0
    system.stops, system.broken = [], ""
    wrong = []
    try:
        since = quiet.keep_quiet(system, this) if isinstance(this, quiet.Quiet) else made_again.forget(system, this)
        took = system.wait_for_effects(since, GIVE_UP_SECONDS)
    except NotRecoveredError as error:
        wrong.append(str(error))
        system.have_stacks_printed()
        system.bring_back()
    system.rest()
    found = system.found_wrong()
    wrong += [str(found)] if found else []
    wrong += [system.broken] if system.broken else []
    seconds = round(time.time() - began, 1)
    return EffectsRound(this.number, str(this), seconds, round(took, 1), list(system.stops), " | ".join(wrong))
