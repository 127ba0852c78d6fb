"""The running system of a fault run with lanes: producers of both modes, a check service, a job, a consumer."""

import itertools
import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Self

from sqlalchemy import text

from checkback.kafka.connecting import TransportName
from checkback.kafka.kafka_python.library import TopicPartition
from checkback.kafka.settling import connect_settler
from checkback.kafka.topic_reading import ends_of, reading_consumer, records_between, records_to_end
from checkback.wire.protocol import GROUP, LANE, REASON
from torture.consumer import Consuming
from torture.effects.strike import Deed, Strike, give, struck, withdraw
from torture.ground import REAL_PARTITIONS, REAL_TOPICS, Ground
from torture.lanes import producer
from torture.lanes.producer import NONE, sender_header, stopped_mark
from torture.lanes.schedule import Round
from torture.oracle import Judgement, judge
from torture.processes import JobProcess, Process
from torture.sent import Database
from torture.shop import PAUSED
from torture.undecided import undecided
from torture.waiting import NotRecoveredError, wait_until, wait_while_less_is_missing

Wait = Callable[[Callable[[], object]], float]
JOB = "job"
DIRECT = "direct"
_MODES = ((TransportName.CONFLUENT, DIRECT), (TransportName.KAFKA_PYTHON, DIRECT), (TransportName.CONFLUENT, JOB))
_ANSWERING = (TransportName.KAFKA_PYTHON, NONE)
_POLL_SECONDS = 0.05
_COME_SECONDS = 60.0
"""For a process to come to a step."""
_AGAIN_SECONDS = 10.0
_STOP_SECONDS = 60.0
_PACE_SECONDS = 2.0
_LOOKED_BACK_SECONDS = 180.0
_FAR_BEHIND = 1_500
_RUNNING = "The first batch has ended"
USUAL = {"CHECKBACK_TRANSACTIONS__TIMEOUT": "6s"}
"""As users have it: so what is measured is what they see."""


@dataclass
class Sender:
    """A producer, and the process that it is now."""

    transport: TransportName
    delivery: str
    process: Process


class _Books(Database):
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


class LanesSystem:
    """Everything under fault; use it as a context manager. Times are seconds of ``time.time()``."""

    def __init__(self, ground: Ground, seed: int, settings: Mapping[str, str] = USUAL) -> None:
        self.ground = ground
        self._settings = settings
        self._starts = itertools.count(seed * 1_000)
        self._checks_folder = ground.folder / "strikes-of-checks"
        self._checks_folder.mkdir()
        self.books = _Books(ground.folder, producer.GROUP)
        self.consuming = Consuming(ground.broker.bootstrap_servers, REAL_TOPICS, REAL_PARTITIONS)
        (ground.folder / PAUSED).touch()
        self.senders = [Sender(*mode, self._start_producer(*mode)) for mode in (*_MODES, _ANSWERING)]
        self.checks = self.start_checks()
        self.job = self._start_job()
        self._asleep: list[Process] = []
        self._pace_at = 0.0
        self.stops: list[str] = []
        """What was said by those of this round that ended without being killed."""

    def __enter__(self) -> Self:
        self.consuming.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.consuming.stop()
        for process in (*(sender.process for sender in self.senders), self.checks, self.job, *self._asleep):
            process.kill()
        self.books.close()

    def begin(self, seconds: float) -> None:
        """Have the producers send when the job is there, and wait until all that they sent at first can be read.

        Raises:
            NotRecoveredError: not in time.
        """
        self.wait_until(lambda: _RUNNING in self.job.said(), seconds, "the job did not start")
        (self.ground.folder / PAUSED).unlink()
        self.wait_until(lambda: bool(self.consuming.found()), seconds, "nothing was delivered")
        self.wait_for_all(time.time(), seconds)

    def direct(self, transport: TransportName) -> Sender:
        """The producer on this client that delivers itself."""
        return next(one for one in self.senders if (one.transport, one.delivery) == (transport, DIRECT))

    def start_checks(self) -> Process:
        """A check service."""
        log = self.ground.folder / "checks.log"
        return Process(["torture.lanes.checks", str(self._checks_folder)], self._environment, log)

    def another_check_service(self) -> Process:
        """Start one beside the present one, which is stopped; gives that."""
        asleep, self.checks = self.checks, self.start_checks()
        self._asleep.append(asleep)
        return asleep

    def supervise(self) -> None:
        """What an orchestrator does: start again what has ended; and slow down whoever sends too much."""
        for sender in self.senders:
            if sender.process.exit_status is not None:
                self._note(sender.process, f"producer ({sender.transport}, {sender.delivery})")
                sender.process = self._start_producer(sender.transport, sender.delivery)
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
        """Wait until something came that this process has sent after a moment.

        Raises:
            NotRecoveredError: not in time.
        """
        came = self.consuming.came
        self.wait_until(
            lambda: any(came(name) is not None for name in self.books.sent_by(process.pid, after)),
            *(seconds, "nothing came of a producer that was continued"),
        )

    def strike(self, this: Round, deed: Deed, step: StrEnum | None = None) -> tuple[Process, float]:
        """Have the producer of the round struck when it comes to the step; which process, and when."""
        process = self.direct(this.transport).process
        with self.struck_at(this, deed, step) as wait:
            return process, wait(lambda: None)

    @contextmanager
    def struck_at(self, this: Round, deed: Deed, step: StrEnum | None = None) -> Iterator[Wait]:
        """Order it; what this gives waits until it was carried out, and says when that was.

        It is told what has the producer come there, which is done again and again.
        """
        strike = Strike(step or _step_of(this), this.number, transport=this.transport, deed=deed)
        give(self.ground.folder, strike)

        def wait(bring_about: Callable[[], object]) -> float:
            again_at = 0.0

            def came() -> bool:
                nonlocal again_at
                if time.monotonic() >= again_at:
                    again_at = time.monotonic() + _AGAIN_SECONDS
                    bring_about()
                return struck(self.ground.folder, strike) is not None

            self.wait_until(came, _COME_SECONDS, f"no producer came to the step '{strike.step}'")
            return time.time()

        try:
            yield wait
        finally:
            withdraw(self.ground.folder)

    def strike_checks(self, this: Round, deed: Deed) -> Strike:
        """Order it of the check service."""
        strike = Strike(_step_of(this), this.number, deed=deed)
        give(self._checks_folder, strike)
        return strike

    def wait_for_checks(self, strike: Strike) -> None:
        """Wait until it was carried out."""
        try:
            self.wait_until(
                lambda: struck(self._checks_folder, strike) is not None,
                *(_COME_SECONDS, f"no check service came to the step '{strike.step}'"),
            )
        finally:
            withdraw(self._checks_folder)

    def fence(self, process: Process) -> None:
        """Settle the newest lane of a living producer, as an operator's command does."""
        group, lane = self._newest_lane(process.pid)
        servers = self.ground.broker.bootstrap_servers
        with closing(connect_settler("kafka-python", servers, self.ground.topics, {})) as settler:
            settler.settle(group, lane)

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
        return judged.without_undecided(
            undecided(self.ground.broker.bootstrap_servers, self.ground.checkpoint, judged.lost)
        )

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

    def _newest_lane(self, pid: int) -> tuple[str, str]:
        half, header = self.ground.topics.half, sender_header(pid)
        found: dict[float, tuple[str, str]] = {}

        def look() -> bool:
            with closing(reading_consumer(self.ground.broker.bootstrap_servers)) as consumer:
                for number, end in ends_of(consumer, half).items():
                    for record in records_between(consumer, TopicPartition(half, number), max(0, end - 200), end):
                        headers = dict(record.headers)
                        if header in headers and LANE in headers:
                            found[record.timestamp] = headers[GROUP].decode(), headers[LANE].decode()
            return bool(found)

        self.wait_until(look, _COME_SECONDS, "a producer named no lane")
        return found[max(found)]

    def _note(self, process: Process, who: str) -> None:
        if process.exit_status != -signal.SIGKILL:
            self.stops.append(f"{who}, exit {process.exit_status}: {_last_line(process)}")

    @property
    def _environment(self) -> dict[str, str]:
        return {**self.ground.settings(), **self._settings}

    def _start_producer(self, transport: TransportName, delivery: str) -> Process:
        folder, broker = self.ground.folder, self.ground.broker
        place = [str(folder), broker.bootstrap_servers, self.ground.topics.prefix, ",".join(REAL_TOPICS)]
        command = ["torture.lanes.producer", *place, str(next(self._starts)), transport, delivery]
        return Process(command, {}, folder / f"producer-{transport}-{delivery}.log")

    def _start_job(self) -> JobProcess:
        folder = self.ground.folder
        environment = {**self.ground.job_environment, **self._settings}
        return JobProcess(["torture.job", str(folder)], environment, folder / "job.log")


def go_on(process: Process) -> None:
    """Continue one that was stopped."""
    os.kill(process.pid, signal.SIGCONT)


def _step_of(this: Round) -> StrEnum:
    if this.step is None:
        raise ValueError(f"A round of '{this.fault}' has a step.")
    return this.step


def _last_line(process: Process) -> str:
    lines = [line.strip() for line in process.said().splitlines() if line.strip()]
    return "".join(lines[-1:])
