"""The running system of a fault run with consumers: a shop, a job, a group; and who starts again what ends."""

import itertools
import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Self

from checkback.consumer import Order, StartAt
from checkback.consumer.listener import TopicPartition
from torture.effects import shop
from torture.effects.books import Books
from torture.effects.database import EffectsDatabase
from torture.effects.kafka_look import KafkaLook, Open
from torture.effects.member import DATABASE, ORDER, STACKS, TRY_AGAIN, WITH_INBOX
from torture.effects.oracle import Verdict, disordered, judge
from torture.effects.orders import PARTITIONS
from torture.ground import Ground
from torture.processes import JobProcess, Process
from torture.undecided import undecided
from torture.waiting import GIVE_UP_SECONDS, NotRecoveredError, wait_until

MEMBERS = 3
NO_VARIABLES: Mapping[str, str] = MappingProxyType({})
_REST_LOOK_SECONDS = 1.0
_CLOSE_SECONDS = 30.0
_PRINT_SECONDS = 1.0


@dataclass
class Member:
    """A consumer of the group, and the processes it was, one after the other."""

    number: int
    process: Process


@dataclass(frozen=True)
class Group:
    """What the consumers of a run are."""

    inbox: bool = True
    order: Order = Order.NONE


class EffectsSystem:
    """Everything under fault; use it as a context manager. Times are seconds of ``time.time()``."""

    shop_arguments: Sequence[str] = ()
    """Of ``torture.effects.shop``, behind the usual ones."""

    def __init__(self, ground: Ground, seed: int, database: EffectsDatabase, group: Group) -> None:
        self.ground = ground
        self.database = database
        self._group = group
        self._numbers = itertools.count(1)
        self.partitions = PARTITIONS
        self.books = Books(ground.folder, database)
        self.look = KafkaLook(ground.broker.bootstrap_servers, ground.topics)
        self.stops: list[str] = []
        """What was said by those of this round that ended without being killed."""
        self.broken = ""
        """What the first consumer said that ended by itself."""
        self.start_at = StartAt.FIRST
        """Of consumers that are started from now on."""
        self._stored: Mapping[TopicPartition, int] = {}
        self._seed = seed
        self.start_shop()
        self.job = self._start_job()
        self.members: list[Member] = []
        for _ in range(MEMBERS):
            self.add_member()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process in (self._shop, self.job, *(member.process for member in self.members)):
            process.kill()

    def start_shop(self) -> None:
        """A producer process."""
        command = ["torture.effects.shop", *self._common, str(self._seed), *self.shop_arguments]
        self._shop = self._start(command, "shop.log")

    def add_member(self) -> Member:
        """One more in the group."""
        number = next(self._numbers)
        self.members.append(Member(number, self._start_consumer(number)))
        return self.members[-1]

    def start_again(self, member: Member) -> None:
        """Another process in place of one that has ended."""
        member.process = self._start_consumer(member.number)

    def remove(self, member: Member) -> None:
        """One less; it may be dead already."""
        self.members.remove(member)
        self.end(member)

    def end(self, member: Member) -> None:
        """Have it end in order."""
        member.process.terminate_in_order()
        self.wait_for_end(member)

    def wait_for_end(self, member: Member) -> None:
        """Of one that was told to end: a second SIGTERM may meet a process that has taken its handler down."""
        if member.process.wait(_CLOSE_SECONDS) is None:
            raise NotRecoveredError(f"A consumer did not end within {_CLOSE_SECONDS:.0f} s of SIGTERM.")
        if member.process.exit_status not in {0, -signal.SIGKILL}:
            self._note(member)

    def restart_job(self) -> None:
        """Another job in place of one that has ended."""
        self.job = self._start_job()

    def supervise(self) -> None:
        """What an orchestrator does: start again what has ended."""
        if self.job.exit_status is not None:
            self.stops.append(f"the job, exit {self.job.exit_status}: {_last_line(self.job)}")
            self.restart_job()
        for member in self.members:
            if member.process.exit_status is not None:
                self._note(member)
                self.start_again(member)

    def wait_until(self, holds: Callable[[], bool], seconds: float, otherwise: str) -> None:
        """Wait until the condition holds, starting again what ends.

        Raises:
            NotRecoveredError: it did not in time.
        """
        wait_until(holds, seconds, otherwise, self.supervise)

    def wait_for_effects(self, since: float, seconds: float = GIVE_UP_SECONDS) -> float:
        """Seconds from ``since`` until in each partition an order had its effect that was committed after it.

        Raises:
            NotRecoveredError: not in time.
        """
        partitions = range(self.partitions)
        self.wait_until(lambda: self.books.went_on(since, partitions), seconds, "not every partition went on")
        return time.time() - since

    def offsets_gone_back(self) -> list[str]:
        """Partitions whose stored offset is before the one of the last time: a zombie's, or a late answer's."""
        stored = {place: one.offset for place, one in self.look.stored().items()}
        before, self._stored = self._stored, stored
        return [
            f"{place} from {offset} to {stored.get(place)}"
            for place, offset in before.items()
            if stored.get(place, -1) < offset
        ]

    def judge(self) -> Verdict:
        """What the oracle says of effects now; what is still on its way counts as lost, and so does a dead letter."""
        self.books.read()
        return self._judged({})

    def come_to_rest(self, seconds: float) -> tuple[Verdict, dict[str, str], list[Open]]:
        """Stop sending, wait until all is done (or the time is over), end all, and judge.

        Returns:
            The verdict; why dead letters are dead; what is not at rest.
        """
        self._shop.terminate()
        stopped = self.ground.folder / shop.STOPPED
        self.wait_until(stopped.exists, GIVE_UP_SECONDS, "the shop did not stop")
        with suppress(NotRecoveredError):
            self.wait_until(self._at_rest, seconds, "not all was done")
        self._end_all()
        self.job.terminate()
        if self.job.wait(_CLOSE_SECONDS) is None:
            self.stops.append("The job did not end when it was told to.")
        dead, reasons = self.look.dead_letters()
        self.books.read(whole=True)
        verdict = self._judged(dead)
        unfinished = self.look.unfinished()
        if verdict.lost:
            servers, checkpoint = self.ground.broker.bootstrap_servers, self.ground.checkpoint
            undelivered = sorted(undecided(servers, checkpoint, verdict.lost))
            unfinished += [Open(name, "its transaction is not decided yet") for name in undelivered]
            verdict = verdict.with_waiting({one.order for one in unfinished})
        return verdict, reasons, unfinished

    def have_stacks_printed(self) -> None:
        """By each consumer, into its log: something is not as it should be, and they are about to end."""
        for member in self.members:
            with suppress(ProcessLookupError):
                os.kill(member.process.pid, STACKS)

    def _judged(self, dead: Mapping[str, int]) -> Verdict:
        verdict = judge(self.books.orders.keys(), self.books.effects, dead)
        ordered = self._group.order is not Order.NONE
        return replace(verdict, disordered=disordered(self.books.booked)) if ordered else verdict

    def _end_all(self) -> None:
        for member in self.members:
            try:
                self.end(member)
            except NotRecoveredError as error:
                self.have_stacks_printed()
                self.broken = self.broken or str(error)
        time.sleep(_PRINT_SECONDS if self.broken else 0)
        for member in self.members:
            member.process.kill()

    def _at_rest(self) -> bool:
        time.sleep(_REST_LOOK_SECONDS)  # it is much to compare
        self.books.read()
        without = self.books.without_effect()
        if without and without - self.look.dead_letters()[0].keys():
            return False
        return not self.look.unfinished()

    def _note(self, member: Member) -> None:
        status = member.process.exit_status
        if status == -signal.SIGKILL:
            return
        said = f"consumer {member.number}, exit {status}: {_last_line(member.process)}"
        self.stops.append(said)
        if status != TRY_AGAIN:
            self.broken = self.broken or said

    @property
    def _common(self) -> tuple[str, str]:
        return str(self.ground.folder), self.ground.broker.bootstrap_servers

    def _start(self, command: list[str], log: str, environment: Mapping[str, str] = NO_VARIABLES) -> Process:
        return Process(command, environment, self.ground.folder / log)

    def _start_consumer(self, number: int) -> Process:
        inbox = WITH_INBOX if self._group.inbox else "none"
        command = ["torture.effects.member", *self._common, inbox, self.start_at]
        environment = {DATABASE: self.database.url, ORDER: self._group.order}
        return self._start(command, f"consumer-{number}.log", environment)

    def _start_job(self) -> JobProcess:
        folder = self.ground.folder
        environment = {**self.ground.job_environment, "CHECKBACK_CHECKS__IN_JOB": "true"}
        return JobProcess(["torture.job", str(folder)], environment, folder / "job.log")


def _last_line(process: Process) -> str:
    lines = [line.strip() for line in process.said().splitlines() if line.strip()]
    return "".join(lines[-1:])
