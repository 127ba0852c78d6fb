"""A fault run with consumers: rounds of one fault each, and the oracle's word at the end."""

import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path

from checkback.exceptions import CheckbackError, ConfigurationError, InstallationError
from checkback.local import LocalKafka
from checkback.operations.topics import TopicAdministration
from torture.clock import SettableClock
from torture.effects.database import EffectsDatabase, database_of
from torture.effects.faults import inject
from torture.effects.oracle import Verdict
from torture.effects.orders import PARTITIONS, TOPIC
from torture.effects.schedule import Round, deck_size, schedule
from torture.effects.system import EffectsSystem, Group
from torture.ground import Ground
from torture.waiting import GIVE_UP_SECONDS, NotRecoveredError

_REST_SECONDS = 240.0
"""What has piled up takes a slow machine minutes."""
_MOST_SAID = 20
BROKER = {
    "group.min.session.timeout.ms": "1000",
    # a transaction whose producer has died is ended after its 10 s, not up to 10 s later
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
}


@dataclass(frozen=True)
class EffectsRound:
    """One round as it went."""

    number: int
    fault: str
    seconds: float
    """All of it."""
    recovery_seconds: float
    """From the fault until every partition went on."""
    stops: list[str]
    """What was said by processes that ended by themselves."""
    wrong: str = ""
    """What did not hold, where that does not end the run."""


@dataclass
class EffectsReport:
    """A whole run."""

    seed: int
    inbox: bool
    rounds: list[EffectsRound] = field(default_factory=list)
    seconds: float = 0.0
    verdict: Verdict | None = None
    """What the oracle says in the end; None: it never came to that."""
    defect: str = ""
    """What ended the run early, if anything did."""
    not_at_rest: list[str] = field(default_factory=list)
    """What was still to be done when the time was over: order, and where its message lies."""
    reasons: dict[str, int] = field(default_factory=dict)
    """Why dead letters are dead, and how many."""
    logs: str = ""
    """The folder, where it was kept."""
    schema: str = ""
    """What was left in somebody's database, if anything was."""

    @property
    def holds(self) -> bool:
        """Whether every promise held."""
        ended = not self.defect and not self.not_at_rest and self.verdict is not None
        return ended and self.verdict is not None and self.verdict.holds(inbox=self.inbox)

    @property
    def inconclusive(self) -> bool:
        """Whether nothing is known to be wrong, but not all had come to rest when the time was over."""
        known = not self.defect and self.verdict is not None and self.verdict.nothing_wrong(inbox=self.inbox)
        return known and not self.holds


Tell = Callable[[EffectsRound], None]


@dataclass(frozen=True)
class Options:
    """What to run."""

    seed: int = 1
    rounds: int | None = None
    """None: one deck."""
    group: Group = field(default_factory=Group)
    postgresql: str = ""
    """Where effects lie: see :func:`torture.effects.database.database_of`."""
    brief: bool = False
    """Decks that a test has time for."""


def torture_effects(options: Options, tell: Tell = lambda _round: None) -> EffectsReport:
    """Break the consumers, and what they need, so many times. Everything lies in a temporary folder.

    Raises:
        CheckbackError: there is no such database.
    """
    ground = ground_at(Path(tempfile.mkdtemp(prefix="checkback-torture-")))
    report = EffectsReport(options.seed, options.group.inbox)
    started = time.monotonic()
    try:
        with database_of(ground.folder, options.postgresql) as database:
            prepare(ground, database)
            with EffectsSystem(ground, options.seed, database, options.group) as system:
                _rounds(system, report, options, tell)
            report.schema = database.leave(None if report.holds else ground.folder)
    except (ConfigurationError, InstallationError):
        shutil.rmtree(ground.folder, ignore_errors=True)  # nothing has happened that anybody may look at
        raise
    finally:
        ground.broker.stop()
    report.seconds = time.monotonic() - started
    if report.holds:
        shutil.rmtree(ground.folder, ignore_errors=True)
    else:
        report.logs = str(ground.folder)
    return report


def ground_at(place: Path) -> Ground:
    """Where consumers have short sessions."""
    broker = LocalKafka(place / "kafka", start_seconds=GIVE_UP_SECONDS, properties=BROKER)
    return Ground(place, broker, SettableClock(place), executors=0)


def prepare(ground: Ground, database: EffectsDatabase) -> None:
    """Start the broker; make the topics and the tables."""
    database.prepare()
    ground.prepare()
    with TopicAdministration(ground.broker.bootstrap_servers) as administration:
        administration.create_one(TOPIC, PARTITIONS)


def _rounds(system: EffectsSystem, report: EffectsReport, options: Options, tell: Tell) -> None:
    kind = system.database.kind
    rounds = schedule(options.seed, brief=options.brief, database=kind)
    try:
        system.wait_for_effects(time.time(), GIVE_UP_SECONDS)
        for this in islice(rounds, options.rounds or deck_size(kind)):
            done = _round(system, this)
            report.rounds.append(done)
            tell(done)
            _refuse_harm(system, this, inbox=report.inbox)
    except NotRecoveredError as error:
        report.defect = str(error)
        system.have_stacks_printed()
    try:
        verdict, reasons, unfinished = system.come_to_rest(_REST_SECONDS)
    except NotRecoveredError as error:
        report.defect = report.defect or str(error)
        return
    report.verdict = verdict
    report.reasons = dict(Counter(reasons.values()))
    report.not_at_rest = [f"{one.order}: {one.where}" for one in unfinished[:_MOST_SAID]]
    report.defect = report.defect or system.broken
    if not report.defect and not verdict.nothing_wrong(inbox=report.inbox):
        report.defect = "Not each order had one effect."


def _round(system: EffectsSystem, this: Round) -> EffectsRound:
    began = time.time()
    time.sleep(this.delay_seconds)  # anywhere in what consumers do: that is what is tested
    system.stops = []
    try:
        since = inject(system, this)
        took = system.wait_for_effects(since)
    except CheckbackError as error:
        raise NotRecoveredError(f"Round {this.number}, {this}: {error}") from error
    return EffectsRound(this.number, str(this), round(time.time() - began, 1), round(took, 1), list(system.stops))


def _refuse_harm(system: EffectsSystem, this: Round, *, inbox: bool) -> None:
    verdict = system.judge()
    back = system.offsets_gone_back()
    if not replace(verdict, lost=[]).nothing_wrong(inbox=inbox) or back or system.broken:
        said = system.broken or (f"a stored offset went back: {', '.join(back)}" if back else str(verdict))
        raise NotRecoveredError(f"Round {this.number}, {this}: {said}.")
