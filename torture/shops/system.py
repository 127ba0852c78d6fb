"""The running system of a fault run with shops: shops of each kind, a job, a consumer with the inbox."""

import itertools
import math
import signal
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Self, cast

from torture.consumer import Consuming
from torture.effects import oracle, orders
from torture.effects.books import BookedEffects
from torture.effects.database import EffectsDatabase
from torture.effects.kafka_look import KafkaLook
from torture.effects.member import DATABASE, WITH_INBOX
from torture.effects.oracle import Verdict
from torture.effects.strike import Deed, Strike, give, release, struck, withdraw
from torture.ground import REAL_PARTITIONS, Ground
from torture.oracle import Judgement, judge
from torture.processes import JobProcess, Process
from torture.shop import PAUSED
from torture.shops.kinds import ANSWERS, DEFECTS_FILE, SELLS, URL, Kind, Where, outcomes_file
from torture.shops.orders import Books
from torture.shops.schedule import Round
from torture.shops.servers import Server
from torture.shops.shop import TOPICS, stopped_mark
from torture.shops.steps import Step
from torture.undecided import undecided
from torture.waiting import NotRecoveredError, wait_until, wait_while_less_is_missing

_COME_SECONDS = 60.0
"""For a shop to come to a step."""
_STOP_SECONDS = 60.0
_END_SECONDS = 40.0
_LOOK_SECONDS = 0.4
_FAR_BEHIND = 500
_PACE_SECONDS = 2.0
_LATE_ROWS = 1_000
_RUNNING = "The first batch has ended"


@dataclass
class Kept:
    """A process that is started again when it has ended."""

    name: str
    start: Callable[[], Process]
    process: Process


class ShopsSystem:
    """Everything under fault; use it as a context manager. Times are seconds of ``time.time()``."""

    def __init__(self, ground: Ground, seed: int, databases: Mapping[Where, Server]) -> None:
        self.ground = ground
        self.databases = databases
        self._starts = itertools.count(seed * 1_000)
        self.books = Books([server.url for server in databases.values()])
        self._effects = BookedEffects(EffectsDatabase(databases[Where.MARIADB].url))
        self._booked: Counter[str] = Counter()
        self._booked_at = 0.0
        self.look = KafkaLook(ground.broker.bootstrap_servers, ground.topics)
        self.consuming = Consuming(ground.broker.bootstrap_servers, TOPICS, REAL_PARTITIONS)
        (ground.folder / PAUSED).touch()
        self.sellers = {kind: self._keep(f"shop {kind}", kind, SELLS) for kind in Kind}
        self.answering = {kind: self._keep(f"endpoint {kind}", kind, ANSWERS) for kind in Kind}
        self.consumer = Kept("consumer", self._start_consumer, self._start_consumer())
        self._job = Kept("job", self._start_job, self._start_job())
        self._pace_at = math.inf
        self.stops: list[str] = []
        """What was said by those of this round that ended without being killed."""

    def __enter__(self) -> Self:
        self.consuming.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.consuming.stop()
        for one in self._kept:
            one.process.kill()
        self.books.close()

    @property
    def job(self) -> JobProcess:
        """The one that runs now."""
        return cast("JobProcess", self._job.process)

    def begin(self, seconds: float) -> None:
        """Have the shops sell when the job is there, and wait until each has had something delivered.

        Raises:
            NotRecoveredError: not in time.
        """
        self.wait_until(lambda: _RUNNING in self.job.said(), seconds, "the job did not start")
        (self.ground.folder / PAUSED).unlink()
        self._pace_at = 0.0
        self.wait_for_all_kinds(time.time(), seconds)

    def supervise(self) -> None:
        """What an orchestrator does: start again what has ended; and slow down whoever sells too much.

        Both databases answer meanwhile.
        """
        for one in self._kept:
            status = one.process.exit_status
            if status is None:
                continue
            if status != -signal.SIGKILL:
                self.stops.append(f"{one.name}, exit {status}: {_last_line(one.process)}")
            one.process = one.start()
        self._pace()

    def wait_until(self, holds: Callable[[], bool], seconds: float, otherwise: str) -> None:
        """Wait until the condition holds, starting again what ends.

        Raises:
            NotRecoveredError: it did not in time.
        """
        wait_until(holds, seconds, otherwise, self.supervise)

    def wait_for_all_kinds(self, since: float, seconds: float) -> float:
        """Seconds until of each shop an order came that was begun after a moment, and the consumer booked one.

        Raises:
            NotRecoveredError: not in time.
        """
        waiting = set(Kind)

        def all_came() -> bool:
            time.sleep(_LOOK_SECONDS)
            for kind in list(waiting):
                if any(self.consuming.came(name) for name in self.books.sent_after(since, kind)):
                    waiting.discard(kind)
            return not waiting and self._booked_since(since)

        otherwise = "nothing new was delivered of each shop, or booked"
        try:
            self.wait_until(all_came, seconds, otherwise)
        except NotRecoveredError as error:
            raise NotRecoveredError(f"{error} Waited for: {sorted(waiting)}") from error
        return time.time() - since

    def strike(self, this: Round, deed: Deed, step: Step | None = None) -> int:
        """Have a shop of the round's kind struck when it comes to the step; gives the process's id.

        Raises:
            NotRecoveredError: none came there.
        """
        strike = self._strike(this, deed, step)
        give(self.ground.folder, strike)
        try:
            self.wait_until(
                lambda: struck(self.ground.folder, strike) is not None,
                *(_COME_SECONDS, f"no shop came to the step '{strike.step}'"),
            )
        finally:
            withdraw(self.ground.folder)
        return struck(self.ground.folder, strike) or 0

    def let_go(self, this: Round) -> None:
        """Of one that is held."""
        release(self.ground.folder, self._strike(this, Deed.HELD, None))

    def judge(self) -> Judgement:
        """What the oracle says of Kafka now; what is still on its way counts as lost."""
        delivered = self.consuming.found()  # first: what is in the databases after it may not have come yet
        return judge(self.books.read(), delivered)

    def judge_effects(self, *, with_dead: bool = False) -> Verdict:
        """Likewise of effects; a dead letter is one's end, too, and is asked for at the end alone."""
        self._read_effects()
        sold = [name for name, body in self.books.read().items() if body.topic == orders.TOPIC]
        return oracle.judge(sold, self._booked, self.look.dead_letters()[0] if with_dead else {})

    @property
    def defects(self) -> list[str]:
        """What shops have seen that may not be."""
        return _lines(self, DEFECTS_FILE)

    def outcomes(self) -> dict[str, dict[str, int]]:
        """How sales ended, by kind, as the shops say that lived on."""
        return {kind.value: dict(Counter(_lines(self, outcomes_file(kind))).most_common()) for kind in Kind}

    def come_to_rest(self, patience: float = 120.0) -> tuple[Judgement, Verdict]:
        """Stop selling, wait until all is delivered and booked (or nothing more comes for so long), and judge."""
        self._stop_selling()
        wait_while_less_is_missing(
            lambda: (len(self.judge().lost), len(self.judge_effects(with_dead=True).lost)), patience, self.supervise
        )
        for one in (self.consumer, self._job):
            one.process.terminate()
            if one.process.wait(_END_SECONDS) is None:
                self.stops.append(f"The {one.name} did not end within {_END_SECONDS:.0f} s of SIGTERM.")
        with suppress(NotRecoveredError):  # it is still to see a repeated or leaked one
            wait_until(self.consuming.at_end, 60, "the reader did not come to the end", lambda: None)
        self.books.read(whole=True)
        judged, verdict = self.judge(), self.judge_effects(with_dead=True)
        if judged.lost:
            ours = undecided(self.ground.broker.bootstrap_servers, self.ground.checkpoint, judged.lost)
            judged = judged.without_undecided(ours)
        return judged, verdict.with_waiting({*judged.lost, *judged.undecided, *(self._unfinished() & {*verdict.lost})})

    def _unfinished(self) -> set[str]:
        return {one.order for one in self.look.unfinished()}

    def _stop_selling(self) -> None:
        def have_stopped() -> bool:
            folder = self.ground.folder
            still = [one.process for one in self.sellers.values() if not stopped_mark(folder, one.process.pid).exists()]
            for process in still:
                with suppress(ProcessLookupError):
                    process.terminate()
            return not still

        self.wait_until(have_stopped, _STOP_SECONDS, "the shops did not stop")

    def _pace(self) -> None:
        if time.monotonic() < self._pace_at:
            return
        self._pace_at = time.monotonic() + _PACE_SECONDS
        behind, paused = len(self.judge().lost), self.ground.folder / PAUSED
        if behind > _FAR_BEHIND:
            paused.touch()
        elif behind < _FAR_BEHIND / 2:
            paused.unlink(missing_ok=True)

    def _read_effects(self) -> None:
        for effect in self._effects.more(self._effects.last - _LATE_ROWS):
            self._booked[effect.id] += 1

    def _booked_since(self, moment: float) -> bool:
        """Whether an effect is there of an order that came after a moment."""
        self._read_effects()
        newest = max((self.consuming.came(name) or 0.0 for name in self._booked), default=0.0)
        return newest > moment

    @property
    def _kept(self) -> list[Kept]:
        return [*self.sellers.values(), *self.answering.values(), self.consumer, self._job]

    def _strike(self, this: Round, deed: Deed, step: Step | None) -> Strike:
        wanted = step or this.step
        if wanted is None:
            raise ValueError(f"A round of '{this.fault}' has a step.")
        return Strike(wanted, this.number, this.after, this.kind, deed)

    def _keep(self, name: str, kind: Kind, does: str) -> Kept:
        def start() -> Process:
            folder, servers = self.ground.folder, self.ground.broker.bootstrap_servers
            command = ["torture.shops.shop", str(folder), servers, kind, does, str(next(self._starts))]
            return Process(command, {URL: self.databases[kind.where].url}, folder / f"{does}-{kind}.log")

        return Kept(name, start, start())

    def _start_consumer(self) -> Process:
        folder, servers = self.ground.folder, self.ground.broker.bootstrap_servers
        command = ["torture.effects.member", str(folder), servers, WITH_INBOX]
        return Process(command, {DATABASE: self.databases[Where.MARIADB].url}, folder / "consumer.log")

    def _start_job(self) -> JobProcess:
        folder = self.ground.folder
        environment = {**self.ground.job_environment, "CHECKBACK_CHECKS__IN_JOB": "true"}
        return JobProcess(["torture.job", str(folder)], environment, folder / "job.log")


def _lines(system: ShopsSystem, name: str) -> list[str]:
    file = system.ground.folder / name
    return file.read_text(encoding="utf-8").splitlines() if file.exists() else []


def _last_line(process: Process) -> str:
    lines = [line.strip() for line in process.said().splitlines() if line.strip()]
    return "".join(lines[-1:])
