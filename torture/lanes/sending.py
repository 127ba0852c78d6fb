"""The running system of a fault run whose producers are processes: those, a check service, a job, a consumer."""

import os
import signal
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from sqlalchemy import text

from checkback.kafka.topic_reading import reading_consumer, records_to_end
from checkback.wire.protocol import ID, REASON
from torture.consumer import Consuming
from torture.effects.strike import Strike, give, struck, withdraw
from torture.ground import REAL_PARTITIONS, REAL_TOPICS, Ground
from torture.lanes.producer import sender_header, stopped_mark
from torture.oracle import Judgement, judge
from torture.processes import JobProcess, Process
from torture.sent import Database
from torture.shop import PAUSED
from torture.undecided import undecided
from torture.waiting import NotRecoveredError, wait_until, wait_while_less_is_missing

Wait = Callable[[Callable[[], object]], float]
COME_SECONDS = 60.0
"""For a process to come to a step."""
_POLL_SECONDS = 0.05
_AGAIN_SECONDS = 10.0
_STOP_SECONDS = 60.0
_PACE_SECONDS = 2.0
_LOOKED_BACK_SECONDS = 180.0
_FAR_BEHIND = 1_500
_RUNNING = "The first batch has ended"


@dataclass
class Sender:
    """A producer, and the process that it is now."""

    name: str
    start: Callable[[], Process]
    process: Process


class SentBooks(Database):
    """Of all producers of a run."""

    def __init__(self, folder: Path, name: str) -> None:
        super().__init__(folder, name)
        with self._engine.begin() as connection:  # after some hundred rounds there are tens of thousands
            connection.execute(text("CREATE INDEX IF NOT EXISTS sent_at ON sent (at)"))

    def sent_between(self, first: float, last: float) -> list[str]:
        """Ids of messages that were sent between two moments (``time.time()``, s)."""
        query = text("SELECT id FROM sent WHERE at > :first AND at <= :last")
        with self._engine.connect() as connection:
            return [name for (name,) in connection.execute(query, {"first": first, "last": last})]

    def sent_by(self, pid: int, after: float) -> list[str]:
        """Ids of messages of one process that were sent after a moment."""
        query = text("SELECT id FROM sent WHERE at > :after AND headers LIKE :header LIMIT 500")
        with self._engine.connect() as connection:
            rows = connection.execute(query, {"after": after, "header": f'%"{sender_header(pid)}"%'})
            return [name for (name,) in rows]


class SendingSystem(ABC):
    """Everything under fault; use it as a context manager. Times are seconds of ``time.time()``."""

    def __init__(
        self,
        ground: Ground,
        books: SentBooks,
        settings: Mapping[str, str],
        producers: Mapping[str, Callable[[], Process]],
        name_header: str = ID,
    ) -> None:
        """``producers``: what starts each, by name. ``name_header``: in which messages say what they are named."""
        self.ground = ground
        self.books = books
        self._settings = settings
        self.consuming = Consuming(ground.broker.bootstrap_servers, REAL_TOPICS, REAL_PARTITIONS, name_header)
        (ground.folder / PAUSED).touch()
        self.senders = [Sender(name, start, start()) for name, start in producers.items()]
        self.checks = self.start_checks()
        self.job = self._start_job()
        self._pace_at = 0.0
        self.stops: list[str] = []
        """What was said by those of this round that ended without being killed."""

    def __enter__(self) -> Self:
        self.consuming.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.consuming.stop()
        for process in self._processes():
            process.kill()
        self.books.close()

    def _processes(self) -> Sequence[Process]:
        return [*(sender.process for sender in self.senders), self.checks, self.job]

    @abstractmethod
    def start_checks(self) -> Process:
        """A check service."""

    def begin(self, seconds: float) -> None:
        """Have the producers send when the job is there, and wait until all that they sent at first can be read.

        Raises:
            NotRecoveredError: not in time.
        """
        self.wait_until(lambda: _RUNNING in self.job.said(), seconds, "the job did not start")
        (self.ground.folder / PAUSED).unlink()
        self.wait_until(lambda: bool(self.consuming.found()), seconds, "nothing was delivered")
        self.wait_for_all(time.time(), seconds)

    def supervise(self) -> None:
        """What an orchestrator does: start again what has ended; and slow down whoever sends too much."""
        for sender in self.senders:
            if sender.process.exit_status is not None:
                self._note(sender.process, f"producer ({sender.name})")
                sender.process = sender.start()
        if self.checks.exit_status is not None:
            self._note(self.checks, "check service")
            self.checks = self.start_checks()
        if self.job.exit_status is not None:
            self._note(self.job, "job")
            self.job = self._start_job()

    def wait_until(self, holds: Callable[[], bool], seconds: float, otherwise: str) -> None:
        """Wait until the condition holds, starting again what ends.

        Raises:
            NotRecoveredError: it did not in time.
        """
        wait_until(holds, seconds, otherwise, self.supervise)

    def wait_for_all(self, moment: float, seconds: float) -> float:
        """Wait until all that was sent before a moment can be read; seconds from it until the last of that came.

        Raises:
            NotRecoveredError: not in time.
        """
        names = self.books.sent_between(moment - _LOOKED_BACK_SECONDS, moment)
        missing = set(names)

        def have_come() -> bool:
            missing.difference_update([name for name in missing if self.consuming.came(name) is not None])
            self._pace()
            return not missing

        self.wait_until(have_come, seconds, f"not all had come that was sent before: {sorted(missing)[:3]}")
        return max([0.0, *((self.consuming.came(name) or moment) - moment for name in names)])

    def wait_for_one_of(self, process: Process, after: float, seconds: float) -> None:
        """Wait until something came that this process has sent after a moment, or it has ended.

        It may: thawed after the broker was restarted, librdkafka's ``rd_kafka_enq_once_del_source_return`` ends the
        process by an assertion, once in a hundred rounds.

        Raises:
            NotRecoveredError: not in time.
        """
        came = self.consuming.came
        self.wait_until(
            lambda: (
                process.exit_status is not None
                or any(came(name) is not None for name in self.books.sent_by(process.pid, after))
            ),
            *(seconds, "nothing came of a producer that was continued"),
        )

    @contextmanager
    def struck_by(self, strike: Strike) -> Iterator[Wait]:
        """Order it; what this gives waits until it was carried out, and says when that was.

        It is told what has a producer come there, which is done again and again.
        """
        give(self.ground.folder, strike)

        def wait(bring_about: Callable[[], object]) -> float:
            again_at = 0.0

            def came() -> bool:
                nonlocal again_at
                if time.monotonic() >= again_at:
                    again_at = time.monotonic() + _AGAIN_SECONDS
                    bring_about()
                return struck(self.ground.folder, strike) is not None

            self.wait_until(came, COME_SECONDS, f"no producer came to the step '{strike.step}'")
            return time.time()

        try:
            yield wait
        finally:
            withdraw(self.ground.folder)

    def judge(self) -> Judgement:
        """What the oracle says of Kafka now; what is still on its way counts as lost."""
        delivered = self.consuming.found()  # first: what is in the database after it may not have come yet
        return judge(self.books.sent_to(REAL_TOPICS), delivered)

    def rejected(self) -> Mapping[str, int]:
        """Reasons for which the job has rejected records, and how many."""
        with closing(reading_consumer(self.ground.broker.bootstrap_servers)) as consumer:
            records = records_to_end(consumer, self.ground.topics.rejected)
            return Counter((dict(record.headers).get(REASON) or b"").decode(errors="replace") for record in records)

    def come_to_rest(self, patience: float = 120.0) -> Judgement:
        """Stop sending, wait until all is delivered (or nothing more comes for so long), stop the job, and judge."""
        self._stop_sending()
        wait_while_less_is_missing(lambda: (len(self.judge().lost),), patience, self.supervise)
        self.job.terminate()
        if self.job.wait(40) is None:
            self.stops.append("The job did not end within 40 s of SIGTERM.")
        with suppress(NotRecoveredError):  # it is still to see a repeated or leaked one
            deadline = time.monotonic() + 60
            while not self.consuming.at_end() and time.monotonic() < deadline:
                time.sleep(_POLL_SECONDS)
        judged = self.judge()
        if not judged.lost:
            return judged
        return judged.without_undecided(self._undecided(judged.lost))

    def harmed(self, judged: Judgement) -> bool:
        """Whether it is worse than that something is still on its way."""
        return bool(judged.repeated or judged.leaked or judged.changed)

    def _undecided(self, lost: Collection[str]) -> set[str]:
        return undecided(self.ground.broker.bootstrap_servers, self.ground.checkpoint, lost)

    def _stop_sending(self) -> None:
        def have_stopped() -> bool:
            folder = self.ground.folder
            still = [one.process for one in self.senders if not stopped_mark(folder, one.process.pid).exists()]
            for process in still:
                with suppress(ProcessLookupError):
                    process.terminate()
            return not still

        self.wait_until(have_stopped, _STOP_SECONDS, "the producers did not stop")

    def _pace(self) -> None:
        if time.monotonic() < self._pace_at:
            return
        self._pace_at = time.monotonic() + _PACE_SECONDS
        lately = self.books.sent_between(time.time() - _LOOKED_BACK_SECONDS, time.time())
        behind = sum(self.consuming.came(name) is None for name in lately)
        paused = self.ground.folder / PAUSED
        if behind > _FAR_BEHIND:
            paused.touch()
        elif behind < _FAR_BEHIND / 2:
            paused.unlink(missing_ok=True)

    def _note(self, process: Process, who: str) -> None:
        if process.exit_status != -signal.SIGKILL:
            self.stops.append(f"{who}, exit {process.exit_status}: {_last_line(process)}")

    @property
    def _environment(self) -> dict[str, str]:
        return {**self.ground.settings(), **self._settings}

    def _start_job(self) -> JobProcess:
        folder = self.ground.folder
        environment = {**self.ground.job_environment, **self._settings}
        return JobProcess(["torture.job", str(folder)], environment, folder / "job.log")


def go_on(process: Process) -> None:
    """Continue one that was stopped."""
    os.kill(process.pid, signal.SIGCONT)


def _last_line(process: Process) -> str:
    lines = [line.strip() for line in process.said().splitlines() if line.strip()]
    return "".join(lines[-1:])
