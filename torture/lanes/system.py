"""The running system of a fault run with lanes: producers of both modes, a check service, a job, a consumer."""

import itertools
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, closing
from enum import StrEnum
from functools import partial

from checkback.kafka.kafka_python.library import TopicPartition
from checkback.kafka.librdkafka.settling import Settler
from checkback.kafka.topic_reading import ends_of, reading_consumer, records_between
from checkback.wire.protocol import GROUP, LANE
from torture.effects.strike import Deed, Strike, give, struck, withdraw
from torture.ground import REAL_TOPICS, Ground
from torture.lanes import producer
from torture.lanes.producer import NONE, sender_header
from torture.lanes.schedule import Round
from torture.lanes.sending import COME_SECONDS, Sender, SendingSystem, SentBooks, Wait
from torture.processes import Process

JOB = "job"
DIRECT = "direct"
_DIRECT_NAMES = ("direct 1", "direct 2")
_PRODUCERS = {**dict.fromkeys(_DIRECT_NAMES, DIRECT), "job": JOB, "answering": NONE}
"""Names, and how each delivers."""
USUAL = {"CHECKBACK_TRANSACTIONS__TIMEOUT": "6s"}
"""As users have it: so what is measured is what they see."""


class LanesSystem(SendingSystem):
    """Everything under fault."""

    def __init__(self, ground: Ground, seed: int, settings: Mapping[str, str] = USUAL) -> None:
        self._starts = itertools.count(seed * 1_000)
        self._checks_folder = ground.folder / "strikes-of-checks"
        self._checks_folder.mkdir()
        self._asleep: list[Process] = []
        producers = {name: partial(self._start_producer, name, delivery) for name, delivery in _PRODUCERS.items()}
        self.ground = ground
        super().__init__(ground, SentBooks(ground.folder, producer.GROUP), settings, producers)

    def _processes(self) -> Sequence[Process]:
        return [*super()._processes(), *self._asleep]

    def direct(self, this: Round) -> Sender:
        """The producer of the round, one of those that deliver themselves."""
        return next(one for one in self.senders if one.name == _direct_name(this))

    def start_checks(self) -> Process:
        """A check service."""
        log = self.ground.folder / "checks.log"
        return Process(["torture.lanes.checks", str(self._checks_folder)], self._environment, log)

    def another_check_service(self) -> Process:
        """Start one beside the present one, which is stopped; gives that."""
        asleep, self.checks = self.checks, self.start_checks()
        self._asleep.append(asleep)
        return asleep

    def strike(self, this: Round, deed: Deed, step: StrEnum | None = None) -> tuple[Process, float]:
        """Have the producer of the round struck when it comes to the step; which process, and when."""
        process = self.direct(this).process
        with self.struck_at(this, deed, step) as wait:
            return process, wait(lambda: None)

    def struck_at(self, this: Round, deed: Deed, step: StrEnum | None = None) -> AbstractContextManager[Wait]:
        """Likewise, by what this gives; it is told what has the producer come there."""
        return self.struck_by(Strike(step or _step_of(this), this.number, who=_direct_name(this), deed=deed))

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
                *(COME_SECONDS, f"no check service came to the step '{strike.step}'"),
            )
        finally:
            withdraw(self._checks_folder)

    def fence(self, process: Process) -> None:
        """Settle the newest lane of a living producer, as an operator's command does."""
        group, lane = self._newest_lane(process.pid)
        Settler(self.ground.broker.bootstrap_servers, self.ground.topics, {}).settle(group, lane)

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

        self.wait_until(look, COME_SECONDS, "a producer named no lane")
        return found[max(found)]

    def _start_producer(self, name: str, delivery: str) -> Process:
        folder, broker = self.ground.folder, self.ground.broker
        place = [str(folder), broker.bootstrap_servers, self.ground.topics.prefix, ",".join(REAL_TOPICS)]
        command = ["torture.lanes.producer", *place, str(next(self._starts)), name, delivery]
        return Process(command, {}, folder / f"producer-{name}.log")


def _direct_name(this: Round) -> str:
    """They take turns."""
    return _DIRECT_NAMES[this.number % len(_DIRECT_NAMES)]


def _step_of(this: Round) -> StrEnum:
    if this.step is None:
        raise ValueError(f"A round of '{this.fault}' has a step.")
    return this.step
