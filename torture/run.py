"""A fault run: rounds of one fault each, and the oracle's word at the end."""

import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from torture import clock
from torture.decks import NEEDS_DISK, Deck, rounds_of
from torture.faults import inject
from torture.ground import Ground, make_ground
from torture.large_batches import LargeReport, strike_large_batches
from torture.oracle import Judgement
from torture.power_ground import with_power_to_lose
from torture.schedule import PUBLISHING, Fault, Round, schedule
from torture.system import System
from torture.waiting import GIVE_UP_SECONDS, NotRecoveredError

NEEDS_CLOCK = frozenset({Fault.CLOCK_BACK_SECONDS, Fault.CLOCK_BACK_HOUR, Fault.CLOCK_AHEAD})
_TABLES_JUDGED_EVERY = 10
"""Rounds of the deck for tables."""
_NO_VERDICT = "Some transactions were not decided yet when the time was over: the machine is too slow for a verdict."
_SLOW_SECONDS = 60.0
NEEDS_DATABASE = frozenset({Fault.DATABASE_CUT})


@dataclass(frozen=True)
class RoundReport:
    """One round as it went."""

    number: int
    fault: str
    recovery_seconds: float
    """From the fault, or from the moment an operator had put things right, to the first new delivery."""
    stops: list[str]
    """What jobs said that ended by themselves in this round."""
    lost_bytes: int = 0
    """What a broker had not yet on its disk when it lost power."""
    seconds: float = 0.0
    """All of the round, the delay before its fault too."""


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
    judgements: dict[str, Judgement] = field(default_factory=dict)
    """What the oracle says of each destination, in the end."""
    of_neighbours: int = 0
    """How many of the messages expected in Kafka are the neighbours'."""
    logs: str = ""
    """The folder, where it was kept: something did not hold, or a recovery took more than a minute."""

    @property
    def holds(self) -> bool:
        """Whether every promise held in every round."""
        return not self.defect and bool(self.judgements) and all(judged.holds for judged in self.judgements.values())

    @property
    def inconclusive(self) -> bool:
        """Whether nothing is known to be wrong, but not all had been decided when the time was over."""
        judged = self.judgements.values()
        if self.defect not in {"", _NO_VERDICT}:  # a job that did not come back is not a slow machine
            return False
        return bool(judged) and all(one.nothing_wrong for one in judged) and any(one.undecided for one in judged)


Tell = Callable[[RoundReport], None]


@dataclass(frozen=True)
class Options:
    """What to run: so many rounds, or for that long; with tables beside Kafka or without, with neighbours or without.

    ``postgresql_url`` is ``postgresql://user:password@host:port/database``; every run has a schema of its own there.
    """

    seed: int = 1
    rounds: int | None = None
    minutes: float | None = None
    executors: int = 1
    """0, 1 or 2; see :class:`torture.ground.Ground`."""
    with_tables: bool = False
    postgresql_url: str = ""
    with_neighbours: bool = True
    """See ``torture/neighbours.py``; runs with large batches never have any."""
    deck: Deck = Deck.ALL
    """See :mod:`torture.decks`; ``POWER`` needs root and loop devices."""
    brief: bool = False
    """Each fault once that has no test of its own; see :func:`torture.schedule.schedule`."""


def torture(options: Options, tell: Tell = lambda _round: None) -> TortureReport:
    """Break the system as the options say.

    Everything lies in a temporary folder; the report says when it is kept, and why.
    """
    ground = _ground(options)
    report = TortureReport(options.seed, left_out=[] if clock.can_be_set() else sorted(NEEDS_CLOCK))
    started = time.monotonic()

    def enough(done: int) -> bool:
        late = options.minutes is not None and time.monotonic() - started >= options.minutes * 60
        return late or (options.rounds is not None and done >= options.rounds)

    try:
        ground.prepare()
        _rounds(ground, report, options, enough, tell)
    finally:
        ground.close()
    report.seconds = time.monotonic() - started
    if not report.holds or any(one.recovery_seconds >= _SLOW_SECONDS for one in report.rounds):
        report.logs = str(ground.folder)
    if report.holds:
        ground.clear(keep_logs=bool(report.logs))
    return report


def _ground(options: Options) -> Ground:
    if options.deck in {Deck.CLUSTER, Deck.CLUSTER_ON_S3}:
        from torture.cluster_ground import make_cluster_ground  # noqa: PLC0415  (Hadoop is for this only)

        place = Path(tempfile.mkdtemp(prefix="checkback-torture-"))
        return make_cluster_ground(place, clock.SettableClock(place), in_s3=options.deck is Deck.CLUSTER_ON_S3)
    if options.deck is Deck.SINKS:
        from torture.sinks_ground import make_sinks_ground  # noqa: PLC0415  (psycopg is for this only)

        return make_sinks_ground()
    usual = make_ground(
        options.executors,
        with_tables=options.with_tables,
        postgresql_url=options.postgresql_url,
        with_disk=options.deck in NEEDS_DISK,
    )
    return with_power_to_lose(usual) if options.deck is Deck.POWER else usual


def torture_large_batches(options: Options, tell: Callable[[str], None]) -> LargeReport:
    """Strike in the midst of large batches: ``options.rounds`` times. Tables are not part of it."""
    ground = make_ground(options.executors)
    report = LargeReport(options.seed, options.executors)
    started = time.monotonic()
    try:
        ground.prepare()
        strike_large_batches(ground, report, options.rounds or 1, tell)
    finally:
        ground.broker.stop()
    report.seconds = time.monotonic() - started
    if report.holds:
        ground.clear(keep_logs=False)
    else:
        report.logs = str(ground.folder)
    return report


def _rounds(ground: Ground, report: TortureReport, options: Options, enough: Callable[[int], bool], tell: Tell) -> None:
    without = frozenset(Fault(name) for name in report.left_out) | (NEEDS_DATABASE if not ground.postgresql else set())
    more_steps = PUBLISHING if ground.tables else ()
    with System(ground, report.seed, with_neighbours=options.with_neighbours) as system:
        try:
            system.wait_for_delivery(time.time(), GIVE_UP_SECONDS)
            whole = schedule(report.seed, without, more_steps, brief=options.brief)
            for this in whole if options.deck is Deck.ALL else rounds_of(options.deck, report.seed):
                if enough(len(report.rounds)):
                    break
                done = _round(system, this)
                report.rounds.append(done)
                tell(done)
                of_tables = options.deck is Deck.SINKS and this.number % _TABLES_JUDGED_EVERY == 0
                for name, judged in (system.judge_all() if of_tables else {"kafka": system.judge()}).items():
                    _refuse_harm(name, judged, this)
        except NotRecoveredError as error:
            report.defect = str(error)
        report.judgements = system.come_to_rest()
        report.of_neighbours = system.sent_by_neighbours
        if not report.defect and not report.holds:
            report.defect = _NO_VERDICT if report.inconclusive else "Not all is as it was sent."


def _refuse_harm(name: str, judgement: Judgement, this: Round) -> None:
    if judgement.repeated or judgement.leaked or judgement.changed:
        raise NotRecoveredError(f"Round {this.number}, {this}: {name}: {judgement}.")


def _round(system: System, this: Round) -> RoundReport:
    began = time.monotonic()
    time.sleep(this.delay_seconds)  # anywhere in a batch: that is what is tested
    system.begin_round()
    since = inject(system, this)
    system.recoveries.append(system.wait_for_delivery(since))
    took = round(max(system.recoveries), 1)
    whole = round(time.monotonic() - began, 1)
    return RoundReport(this.number, str(this), took, list(system.stops), system.lost_bytes, whole)
