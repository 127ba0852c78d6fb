"""A fault run with shops on real databases: rounds of one fault each, and the oracle's word at the end."""

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice, takewhile
from pathlib import Path

from checkback.exceptions import CheckbackError, InstallationError
from checkback.operations.topics import TopicAdministration
from torture.effects.database import EffectsDatabase
from torture.effects.oracle import Verdict
from torture.effects.orders import TOPIC
from torture.effects.run import ground_at
from torture.ground import REAL_PARTITIONS, Ground
from torture.oracle import Judgement
from torture.shops.faults import inject
from torture.shops.kinds import Where
from torture.shops.orders import make_tables
from torture.shops.schedule import DECK, Round, schedule
from torture.shops.servers import Server, servers
from torture.shops.system import ShopsSystem
from torture.waiting import GIVE_UP_SECONDS, NotRecoveredError


@dataclass(frozen=True)
class ShopsRound:
    """One round as it went."""

    number: int
    fault: str
    seconds: float
    """From the fault until of each shop something came that was begun after it, and an effect was booked."""
    stops: list[str]


@dataclass
class ShopsReport:
    """A whole run."""

    seed: int
    rounds: list[ShopsRound] = field(default_factory=list)
    seconds: float = 0.0
    judgement: Judgement | None = None
    """What the oracle says in the end; None: it never came to that."""
    effects: Verdict | None = None
    """Likewise of the consumer's effects."""
    orders: Mapping[str, int] = field(default_factory=dict)
    """Committed, by shop."""
    outcomes: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """How sales ended, by shop, of processes that were not killed meanwhile."""
    defect: str = ""
    """What ended the run early, if anything did."""
    logs: str = ""
    """The folder, where it was kept."""

    @property
    def holds(self) -> bool:
        """Whether nothing was lost, repeated, leaked or changed, and each order had one effect."""
        return not self.defect and bool(
            self.judgement and self.judgement.holds and self.effects and self.effects.holds(inbox=True)
        )

    @property
    def inconclusive(self) -> bool:
        """Whether nothing is known to be wrong, but not all had come to rest when the time was over."""
        known = not self.defect and self.judgement is not None and self.effects is not None
        return known and not self.holds and _nothing_wrong(self.judgement, self.effects)


Tell = Callable[[ShopsRound], None]


def torture_shops(
    seed: int,
    rounds: int | None = None,
    tell: Tell = lambda _round: None,
    *,
    minutes: float | None = None,
    brief: bool = False,
) -> ShopsReport:
    """Break shops, their databases, and what they need, so many times, or for so long; else for one deck.

    Everything lies in temporary folders; the report says when one is kept.

    Raises:
        CheckbackError: a database server or a package is not installed here.
    """
    _refuse_missing_packages()
    with servers() as databases:
        place = Path(tempfile.mkdtemp(prefix="checkback-torture-"))
        ground = ground_at(place)
        report, started = ShopsReport(seed), time.monotonic()
        try:
            _prepare(ground, databases)
            with ShopsSystem(ground, seed, databases) as system:
                of_seed = schedule(seed, brief=brief)
                most = rounds or (None if minutes else len(DECK))
                _rounds(system, report, islice(_until(minutes, of_seed), most), tell)
        finally:
            ground.close()
        report.seconds = time.monotonic() - started
        if report.holds:
            shutil.rmtree(place, ignore_errors=True)
        else:
            report.logs = str(place)
            for where, server in databases.items():
                (place / f"{where}.log").write_text(server.log, encoding="utf-8")
    return report


def _until(minutes: float | None, rounds: Iterator[Round]) -> Iterator[Round]:
    """No round begins when the time is over."""
    started = time.monotonic()
    return takewhile(lambda _: minutes is None or time.monotonic() < started + 60 * minutes, rounds)


def _refuse_missing_packages() -> None:
    try:
        import django  # noqa: F401, PLC0415  (its shops need it)
        import pymysql  # noqa: F401, PLC0415  (likewise)
    except ModuleNotFoundError as error:
        raise InstallationError(f"--shops needs {error.name}: pip install django pymysql.") from error


def _prepare(ground: Ground, databases: Mapping[Where, Server]) -> None:
    for server in databases.values():
        make_tables(server.url)
    EffectsDatabase(databases[Where.MARIADB].url).prepare()
    ground.prepare()
    with TopicAdministration(ground.broker.bootstrap_servers) as administration:
        administration.create_one(TOPIC, REAL_PARTITIONS)


def _rounds(system: ShopsSystem, report: ShopsReport, rounds: Iterator[Round], tell: Tell) -> None:
    try:
        system.begin(GIVE_UP_SECONDS)
        for this in rounds:
            done = _round(system, this)
            report.rounds.append(done)
            tell(done)
            _refuse_harm(system, this)
    except NotRecoveredError as error:
        report.defect = str(error)
    try:
        report.judgement, report.effects = system.come_to_rest()
    except NotRecoveredError as error:
        report.defect = report.defect or str(error)
        return
    report.orders, report.outcomes = dict(system.books.by_shop), system.outcomes()
    report.defect = report.defect or "; ".join(system.defects)
    if not report.defect and not _nothing_wrong(report.judgement, report.effects):
        report.defect = "Not all is as it was committed."


def _nothing_wrong(judged: Judgement | None, effects: Verdict | None) -> bool:
    return bool(judged and judged.nothing_wrong and effects and effects.nothing_wrong(inbox=True))


def _round(system: ShopsSystem, this: Round) -> ShopsRound:
    time.sleep(this.delay_seconds)  # anywhere in what shops do: that is what is tested
    system.stops = []
    try:
        seconds = system.wait_for_all_kinds(inject(system, this), GIVE_UP_SECONDS)
    except CheckbackError as error:
        raise NotRecoveredError(f"Round {this.number}, {this}: {error}") from error
    return ShopsRound(this.number, str(this), round(seconds, 1), list(system.stops))


def _refuse_harm(system: ShopsSystem, this: Round) -> None:
    judged, effects = replace(system.judge(), lost=[]), replace(system.judge_effects(), lost=[])
    if not _nothing_wrong(judged, effects) or system.defects:
        said = "; ".join(system.defects) or f"{judged}; effects: {effects}"
        raise NotRecoveredError(f"Round {this.number}, {this}: {said}.")
