"""The running system: a shop and its neighbours, a check service, a job, a consumer; and a supervisor that starts again
what has ended.
"""

import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Self

from torture import neighbours, shop, tables
from torture.consumer import Consuming
from torture.ground import REAL_PARTITIONS, REAL_TOPICS, Ground
from torture.oracle import Body, Judgement, judge
from torture.processes import JobProcess, Process
from torture.sent import Database
from torture.undecided import undecided
from torture.waiting import GIVE_UP_SECONDS, NotRecoveredError, wait_until, wait_while_less_is_missing

_FOR_GOOD = 1
"""The exit status of what must not be started again as it is; see ``deploy/checkback.service``."""
_MOST_REST_SECONDS = 600.0
_POLL_SECONDS = 0.05
_READ_SECONDS = 300.0
READ_AGAIN = "kafka, read again"
"""A destination: what lies in Kafka in the end, whatever a consumer got before."""
_FAR_BEHIND = 2_000
"""Messages that have not come, at which the shop pauses: a quarter of a minute of sending, and a batch of the job."""
_LOOK_BEHIND_SECONDS = 2.0


class System:
    """Everything under fault; use it as a context manager. Times are seconds of ``time.time()``."""

    def __init__(self, ground: Ground, seed: int, *, with_neighbours: bool = True) -> None:
        self.ground = ground
        self._seed = seed
        self._starts = itertools.count()
        self._database = Database(ground.of_shop, shop.GROUP, ground.synchronous)
        self._databases = [self._database]
        self.changed_settings: dict[str, str] = {}
        """What an operator has set over the run's settings; jobs that are started from now on have it."""
        self.consuming = Consuming(ground.servers, REAL_TOPICS, REAL_PARTITIONS)
        self.shop = self.start_shop()
        self.neighbours: Process | None = None
        if with_neighbours:
            self._databases.append(Database(ground.folder, neighbours.DATABASE))
            self.neighbours = self.start_neighbours()
        self.checks = self.start_checks()
        self.job = self.start_job()
        self._zombies: list[Process] = []
        self._more_topics: list[str] = []
        self.stops: list[str] = []
        """What jobs of this round said when they ended without being killed."""
        self.given_up: list[str] = []
        """Jobs and check services of this round that ended for good: an orchestrator would leave them down."""
        self._look_behind_at = 0.0
        self.recoveries: list[float] = []
        """Seconds from each fault of this round to the first new delivery."""
        self.lost_bytes = 0
        """What a broker had not yet on its disk when it lost power in this round."""

    def __enter__(self) -> Self:
        self.consuming.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.consuming.stop()
        for process in (self.shop, self.neighbours, self.checks, self.job, *self._zombies):
            if process is not None:
                process.kill()
        for database in self._databases:
            database.close()

    def start_shop(self) -> Process:
        """A producer process; each has dice of its own."""
        folder, servers, topics = self.ground.folder, self.ground.servers, ",".join(self.ground.sent_topics)
        seed = str(self._seed * 1000 + next(self._starts))
        command = ["torture.shop", str(folder), servers, self.ground.topics.prefix, topics, seed]
        command += [str(self.ground.of_shop), self.ground.synchronous]
        return Process(command, self.ground.of_sending, folder / "shop.log")

    def leave_database(self) -> None:
        """Have none of the shop's files open, until it is asked something again."""
        self._database.close()

    def start_neighbours(self) -> Process:
        """The other two tenants, one process."""
        folder, servers, seed = self.ground.folder, self.ground.servers, self._seed * 1000 + next(self._starts)
        command = [str(folder), servers, self.ground.topics.prefix, REAL_TOPICS[0], str(seed)]
        return Process(["torture.neighbours", *command], {}, folder / "neighbours.log")

    def start_checks(self) -> Process:
        """A check service."""
        return Process(["checkback", "checks"], self.ground.settings(), self.ground.folder / "checks.log")

    def start_job(self) -> JobProcess:
        """A job on the one checkpoint."""
        folder = self.ground.folder
        return JobProcess(["torture.job", str(folder)], self.job_environment, folder / "job.log")

    @property
    def job_environment(self) -> dict[str, str]:
        """Of a job that is started now."""
        changed = {f"CHECKBACK_{name}": value for name, value in self.changed_settings.items()}
        return {**self.ground.job_environment, **changed}

    @contextmanager
    def also_sending_to(self, topic: str, partition: int | None = None) -> Iterator[None]:
        """Some messages of the shop go there meanwhile, too."""
        self._more_topics.append(topic)
        self.ground.tell_shop((topic, partition))
        try:
            yield
        finally:
            self.ground.tell_shop()

    def sent_to(self, topic: str) -> int:
        """Messages in the shop's database that are for a topic."""
        return len(self._sent((topic,)))

    def missing_of(self, topic: str) -> list[str]:
        """Those of them that have not come."""
        return sorted(self._sent((topic,)).keys() - self.consuming.found().keys())

    def restart_job(self) -> None:
        """Another job in place of one that has ended."""
        self.job = self.start_job()

    def take_over(self) -> JobProcess:
        """Start another job while the present one is still there, and return that one."""
        old, self.job = self.job, self.start_job()
        self._zombies.append(old)
        return old

    def supervise(self) -> None:
        """What an orchestrator does: start again what has ended, and slow down whoever sends too much."""
        self._pace()
        if self.job.exit_status is not None:
            self.note_stop(self.job)
            self.restart_job()
        if self.checks.exit_status is not None:
            if self.checks.exit_status >= 0:  # it was not killed
                self.note_stop(self.checks, "the check service")
            self.checks = self.start_checks()
        if self.shop.exit_status is not None:
            self.shop = self.start_shop()
        if self.neighbours is not None and self.neighbours.exit_status is not None:
            self.neighbours = self.start_neighbours()

    def _pace(self) -> None:
        """A machine that is too slow for the shop would be asked about more and more transactions, and rest never."""
        if time.monotonic() < self._look_behind_at:
            return
        self._look_behind_at = time.monotonic() + _LOOK_BEHIND_SECONDS
        behind = sum(self.consuming.came(name) is None for name in self._database.ids_of(REAL_TOPICS))
        paused = self.ground.folder / shop.PAUSED
        if behind > _FAR_BEHIND:
            paused.touch()
        elif behind < _FAR_BEHIND / 2:
            paused.unlink(missing_ok=True)

    def supervise_for(self, seconds: float) -> None:
        """Do so for a while."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self.supervise()
            time.sleep(_POLL_SECONDS)

    def begin_round(self) -> None:
        """Forget what the last round noted."""
        self.stops, self.recoveries, self.given_up, self.lost_bytes = [], [], [], 0

    def note_stop(self, job: Process, why: str = "") -> None:
        """Keep what a job said that ended by itself."""
        self.stops.append(f"{why}: {_last_words(job)}" if why else _last_words(job))
        if job.exit_status == _FOR_GOOD:
            self.given_up.append(self.stops[-1])

    def delivered_after(self, moment: float) -> bool:
        """Whether a message of the shop came whose transaction began after it."""
        return any(self.consuming.came(name) for name in self._database.sent_after(moment, most=500))

    def wait_for_delivery(self, after: float, seconds: float = GIVE_UP_SECONDS, *, supervised: bool = True) -> float:
        """Seconds from ``after`` until a message of the shop came whose transaction began after it.

        Raises:
            NotRecoveredError: none came in time.
        """
        self.wait_until(
            lambda: self.delivered_after(after), seconds, "nothing new was delivered", supervised=supervised
        )
        return time.time() - after

    def wait_until(self, holds: Callable[[], bool], seconds: float, otherwise: str, *, supervised: bool = True) -> None:
        """Wait until the condition holds, starting again what ends.

        Raises:
            NotRecoveredError: it did not in time.
        """

        def meanwhile() -> None:
            self._pace()  # always: a shop that was paused before would pause for ever
            if supervised:
                self.supervise()

        wait_until(holds, seconds, otherwise, meanwhile)

    def judge(self) -> Judgement:
        """What the oracle says of Kafka now; what is still on its way counts as lost."""
        delivered = self.consuming.found()  # first: what is in the database after it may not have come yet
        return judge(self._sent((*REAL_TOPICS, *self._more_topics)), delivered)

    def judge_all(self) -> dict[str, Judgement]:
        """What it says of every destination."""
        beside = self.ground.tables.found() if self.ground.tables else {}
        sent = self._sent(tables.TOPICS) if beside else {}
        return {"kafka": self.judge(), **{name: judge(sent, found) for name, found in beside.items()}}

    def _sent(self, topics: Sequence[str]) -> dict[str, Body]:
        return {name: body for database in self._databases for name, body in database.sent_to(topics).items()}

    @property
    def sent_by_neighbours(self) -> int:
        """Messages that neighbours have committed until now."""
        return sum(len(database.sent_to(REAL_TOPICS)) for database in self._databases[1:])

    def come_to_rest(self, patience: float = 120.0) -> dict[str, Judgement]:
        """Stop sending, wait until all is delivered, stop the job, and judge.

        It waits as long as more is delivered: what has piled up takes a slow machine minutes. ``patience`` (s) is how
        long nothing may come; ten minutes are the most.
        """
        self._stop_sending()
        wait_while_less_is_missing(self._missing, patience, self.supervise, most_seconds=_MOST_REST_SECONDS)
        self.job.terminate()
        if self.job.wait(40) is None:
            self.stops.append("The job did not end within 40 s of SIGTERM.")
        with suppress(NotRecoveredError):  # it is still to see a repeated or leaked one
            self.wait_until(self.consuming.at_end, 60, "the consumer did not come to the end", supervised=False)
        judged = self.judge_all()
        if self.ground.may_forget:
            judged[READ_AGAIN] = self._judge_again()
        missing = {name for one in judged.values() for name in one.lost}
        if not missing:
            return judged
        waiting = undecided(self.ground.servers, self.ground.checkpoint_here(), missing)
        return {name: one.without_undecided(waiting) for name, one in judged.items()}

    def _judge_again(self) -> Judgement:
        """What it says of all that lies in Kafka now."""
        again = Consuming(self.ground.servers, REAL_TOPICS, REAL_PARTITIONS)
        again.start()
        try:
            with suppress(NotRecoveredError):
                self.wait_until(again.at_end, _READ_SECONDS, "not all was read again", supervised=False)
        finally:
            again.stop()
        return judge(self._sent((*REAL_TOPICS, *self._more_topics)), again.found())

    def _stop_sending(self) -> None:
        """They continue answering checks. One that is started again meanwhile is told, too."""
        marks = [self.ground.folder / mark for mark in (shop.STOPPED, neighbours.STOPPED)]
        for mark in marks:
            mark.unlink(missing_ok=True)

        def has_stopped() -> bool:
            still = [
                process
                for process, mark in zip((self.shop, self.neighbours), marks, strict=True)
                if process is not None and not mark.exists()
            ]
            for process in still:
                with suppress(ProcessLookupError):
                    process.terminate()
            return not still

        self.wait_until(has_stopped, GIVE_UP_SECONDS, "the shop and its neighbours did not stop")

    def _missing(self) -> tuple[int, int]:
        """Messages that Kafka lacks, and rows that tables lack, which are counted when Kafka has all."""
        of_kafka = len(self.judge().lost)
        return of_kafka, 0 if of_kafka else sum(len(judged.lost) for judged in self.judge_all().values())


def _last_words(process: Process) -> str:
    lines = [line.strip() for line in process.said().splitlines() if line.strip()]
    errors = [line for line in lines if "Error: " in line] or lines[-1:]
    return f"exit {process.exit_status}: {' '.join(errors[-1:])}"
