"""The system of fault runs with consumers, with pull readers beside them, that can be at rest and partly down."""

import signal
import sqlite3
import time
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from enum import StrEnum

from confluent_kafka import Consumer, TopicPartition

from torture import job, shop
from torture.effects.database import EffectsDatabase
from torture.effects.oracle import Verdict, judge
from torture.effects.shop import PLAIN
from torture.effects.system import EffectsSystem, Group
from torture.forgetting import pulling
from torture.ground import Ground
from torture.processes import JobProcess, Process
from torture.waiting import NotRecoveredError

RENEW_SECONDS = 7.0
"""How often the job renews what would expire after a minute: once a day, where that is a week."""
_PATIENCE_SECONDS = 90.0
_MOST_REST_SECONDS = 480.0
_SETTLE_SECONDS = 3.0
_LOOK_SECONDS = 0.5
_END_SECONDS = 45.0
_ASK_SECONDS = 30.0
_PULL_READERS = ("one", "other")
_FOR_GOOD = 1
_ERROR = "checkback.exceptions."
_RUNNING = "Running; checkpoint in"


class Part(StrEnum):
    """What may be down."""

    JOB = "job"
    CONSUMERS = "consumers"


@dataclass
class Wrong:
    """Ids with which something has been found wrong."""

    lost: set[str] = field(default_factory=set)
    repeated: set[str] = field(default_factory=set)
    leaked: set[str] = field(default_factory=set)
    moved_twice: set[str] = field(default_factory=set)
    """A retry of theirs was moved from ``cb.later`` to the half topic more than once."""
    pulled_less: set[str] = field(default_factory=set)
    """Orders that a pull reader has not got."""
    pulled_more: set[str] = field(default_factory=set)
    """That it got more than once."""

    def minus(self, other: "Wrong") -> "Wrong":
        """What is not in another one."""
        return Wrong(**{name: ids - getattr(other, name) for name, ids in vars(self).items()})

    def add(self, other: "Wrong") -> None:
        """Add another one's."""
        for name, ids in vars(other).items():
            getattr(self, name).update(ids)

    def __bool__(self) -> bool:
        return any(vars(self).values())

    def __str__(self) -> str:
        names = {
            "moved_twice": "with a retry that was moved twice",
            "pulled_less": "not got by a pull reader",
            "pulled_more": "got twice by a pull reader",
        }
        told = {names.get(name, name): sorted(ids) for name, ids in vars(self).items() if ids}
        said = [
            f"{len(ids)} {name} ({', '.join(ids[:3])}{' ...' if len(ids) > 3 else ''})" for name, ids in told.items()
        ]
        return ", ".join(said) or "0 lost, 0 repeated, 0 leaked"


class ForgettingSystem(EffectsSystem):
    """Everything under fault. Sentences of the job are obeyed, as an operator would."""

    shop_arguments = (PLAIN,)

    def __init__(self, ground: Ground, seed: int, database: EffectsDatabase) -> None:
        self.down: set[Part] = set()
        """What is not to be started again."""
        self.gone: set[str] = set()
        """Orders that may be lost: they had no end when a topic was deleted in which they may have been."""
        self.pulls_excused: set[str] = set()
        """Orders of which nothing is asked of pull readers: they lay in the topic that these read, and that was made
        again or cut short."""
        self.wrong = Wrong()
        """Found so far."""
        self.cut_ms = 0
        """When a log last lost its end (Unix time, ms): an operator's ``--to-datetime``."""
        self._checkpoints = 0
        self._dead_before: Counter[str] = Counter()
        self.ground = ground
        self.pause_shop()
        super().__init__(ground, seed, database, Group())
        self._pulls = {name: self._start_pull(name) for name in _PULL_READERS}

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        for process in self._pulls.values():
            process.kill()

    def supervise(self) -> None:
        """Start again what has ended and is not meant to be down, and do what the job says."""
        if Part.JOB not in self.down and self.job.exit_status is not None:
            self._obey()
            self.restart_job()
        if self._shop.exit_status is not None:
            self.broken = self.broken or f"the shop: {_last_words(self._shop)}"
            self.start_shop()
        if Part.CONSUMERS in self.down:
            return
        for member in self.members:
            if member.process.exit_status is not None:
                self._note(member)
                self.start_again(member)
        for name, process in self._pulls.items():
            if process.exit_status is not None:
                if process.exit_status != -signal.SIGTERM:
                    self.broken = self.broken or f"pull reader ({name}): {_last_words(process)}"
                self._pulls[name] = self._start_pull(name)

    def supervise_for(self, seconds: float) -> None:
        """Do so for a while."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self.supervise()
            time.sleep(_LOOK_SECONDS)

    def stop(self, parts: Collection[Part]) -> None:
        """Have them end in order, and leave them down."""
        self.down |= set(parts)
        if Part.JOB in parts:
            self.job.terminate()
            if self.job.wait(_END_SECONDS) is None:
                raise NotRecoveredError("The job did not end when it was told to.")
        if Part.CONSUMERS in parts:
            for member in self.members:
                member.process.terminate()
            for member in self.members:
                self.wait_for_end(member)
            for process in self._pulls.values():
                process.terminate()
                process.wait(_END_SECONDS)

    def begin(self, seconds: float) -> float:
        """Have the shop send when all are there; returns when it began.

        Raises:
            NotRecoveredError: they are not, in time.
        """
        self.wait_until(self._all_there, seconds, "not all were there")
        return self.resume_shop()

    def bring_back(self) -> None:
        """All that is down."""
        down, self.down = self.down, set()
        if Part.JOB in down:
            self.restart_job()
        if Part.CONSUMERS in down:
            for member in self.members:
                self.start_again(member)
            for name in self._pulls:
                self._pulls[name] = self._start_pull(name)

    def pause_shop(self) -> None:
        """It sends nothing more; its clients stay, and answer checks."""
        (self.ground.folder / shop.PAUSED).touch()

    def resume_shop(self) -> float:
        """Returns the moment (``time.time()``) from which on it sends."""
        since = time.time()
        (self.ground.folder / shop.PAUSED).unlink(missing_ok=True)
        return since

    def open_orders(self) -> set[str]:
        """Committed ones that have no end, and may still have one."""
        dead = self._dead()
        self.books.read()
        return self.books.without_effect() - dead.keys() - self.gone - self.wrong.lost

    def rest(self) -> None:
        """Pause the shop and wait until each order has its end, as long as more have; then for what comes twice."""
        self.pause_shop()
        time.sleep(_LOOK_SECONDS)
        end, fewest, since = time.monotonic() + _MOST_REST_SECONDS, self._to_do(), time.monotonic()
        while any(fewest) and time.monotonic() < min(end, since + _PATIENCE_SECONDS):
            self.supervise_for(_LOOK_SECONDS)
            to_do = self._to_do()
            if to_do < fewest:
                fewest, since = to_do, time.monotonic()
        self.supervise_for(_SETTLE_SECONDS)

    def found_wrong(self) -> Wrong:
        """What is wrong that was not known: to be asked at rest. It is known from then on."""
        dead = self._dead()
        self.books.read()
        orders = self.books.orders.keys()
        verdict = judge(orders, self.books.effects, dead)
        found = Wrong(
            lost=set(verdict.lost) - self.gone,
            repeated=set(verdict.repeated),
            # of one that Kafka did not acknowledge in time nobody has noted that it was sent
            leaked={name for name in verdict.leaked if not name.startswith(PLAIN)},
            pulled_less=self._not_pulled() - self.pulls_excused,
        )
        if not self._checkpoints:  # a new checkpoint delivers what is in cb.half again: who reads must remember ids
            twice = {name for pulled in self._pulled() for name, count in pulled.items() if count > 1}
            found.pulled_more = twice - self.pulls_excused
            found.moved_twice = self.look.moved_twice()
        new = found.minus(self.wrong)
        self.wrong.add(new)
        return new

    def verdict(self) -> Verdict:
        """What the oracle says of all, and without what is gone."""
        verdict = judge(self.books.orders.keys(), self.books.effects, self._dead())
        leaked = [name for name in verdict.leaked if not name.startswith(PLAIN)]
        return replace(verdict, lost=[name for name in verdict.lost if name not in self.gone], leaked=leaked)

    @contextmanager
    def dead_letters_kept(self) -> Iterator[None]:
        """Their topic may go meanwhile, or lose its end: what is gone has been an order's end nevertheless."""
        before = self.look.dead_letters()[0]
        yield
        self._dead_before += before - self.look.dead_letters()[0]

    def excuse_open_orders(self) -> None:
        """A topic is gone in which they may have been."""
        self.gone |= self.open_orders()

    def excuse_pulls(self) -> None:
        """The topic that pull readers read is another one now."""
        self.pulls_excused |= self.books.orders.keys()

    def _all_there(self) -> bool:
        time.sleep(_LOOK_SECONDS)
        return _RUNNING in self.job.said() and len(self.look.stored()) >= self.partitions

    def _to_do(self) -> tuple[int, int]:
        open_orders = self.open_orders()
        return len(open_orders), len(self._not_pulled() - self.pulls_excused - self.wrong.pulled_less)

    def _dead(self) -> Counter[str]:
        """Dead letters. After a new checkpoint a message comes again, and may die again, with the same ``cb-id``."""
        dead = self._dead_before + self.look.dead_letters()[0]
        return Counter(dict.fromkeys(dead, 1)) if self._checkpoints else dead

    def _not_pulled(self) -> set[str]:
        return {name for pulled in self._pulled() for name in self.books.orders.keys() - pulled.keys() - self.gone}

    def _pulled(self) -> list[Counter[str]]:
        found = []
        for name in self._pulls:
            with suppress(sqlite3.OperationalError), closing(pulling.database(self.ground.folder, name)) as connection:
                found.append(Counter(row for (row,) in connection.execute("SELECT id FROM pulled")))
        return found

    def _obey(self) -> None:
        said = _last_words(self.job)
        self.stops.append(f"the job, {said}")
        if self.job.exit_status != _FOR_GOOD:
            return
        if job.NEW_CHECKPOINT in said:
            self._checkpoints += 1
        if "topics create" in said:
            self.ground.create_topics()
        elif "--reset-offsets --to-datetime" in said:
            self._reset_later_offsets()
        elif job.NEW_CHECKPOINT not in said:
            self.broken = self.broken or f"the job: {said}"

    def _reset_later_offsets(self) -> None:
        """Move the offsets of ``cb.later`` to the first record after the cut, as the stop message advises."""
        later = self.ground.topics.later
        settings = {"bootstrap.servers": self.ground.servers, "group.id": later, "enable.auto.commit": False}
        consumer = Consumer({**settings, "log_level": 0})
        with closing(consumer):
            partitions = consumer.list_topics(later, timeout=_ASK_SECONDS).topics[later].partitions
            since = [TopicPartition(later, number, self.cut_ms) for number in partitions]
            offsets = consumer.offsets_for_times(since, timeout=_ASK_SECONDS)
            for place in offsets:
                if place.offset < 0:  # no record after the cut: the end
                    place.offset = consumer.get_watermark_offsets(place, timeout=_ASK_SECONDS)[1]
            consumer.commit(offsets=offsets, asynchronous=False)

    def _start_job(self) -> JobProcess:
        folder, number = self.ground.folder, self._checkpoints
        environment = {
            **self.ground.job_environment,
            "CHECKBACK_CHECKS__IN_JOB": "true",
            "CHECKBACK_JOB__CHECKPOINT": str(self.ground.checkpoint) + (f"-{number}" if number else ""),
            job.RENEW: str(RENEW_SECONDS),
        }
        more = [job.NEW_CHECKPOINT] if number else []
        return JobProcess(["torture.job", str(folder), *more], environment, folder / "job.log")

    def _start_pull(self, name: str) -> Process:
        return self._start(["torture.forgetting.pulling", *self._common, name], f"pull-{name}.log")


def _last_words(process: Process) -> str:
    lines = [line.strip() for line in process.said().splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith(_ERROR)] or lines[-1:]
    return f"exit {process.exit_status}: {''.join(errors[-1:]).removeprefix(_ERROR)}"
