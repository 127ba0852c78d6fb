"""Many producers with a lane each that die at once: until all they left open is settled and decided.

1. Lanes are opened.  2. Half messages are written that name them; one lane in ten delivers its first one, and none has
an op.  3. The endpoints say that all were committed. Every message must be there once, those of the lanes, too.
"""

import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka import Message as Report

from bench.outage_endpoints import Endpoints, endpoints
from bench.outage_load import RETURNED_TOPIC, Heartbeats, ReturnedReader, client
from bench.running import RunningJob, Tell
from bench.starting.recover import job_settings
from bench.workload import HALF_PARTITIONS, delivered_once, produce, workplace
from checkback.kafka.librdkafka.lanes import Lane, LanePlace
from checkback.producing.direct.entries import lane_half
from checkback.wire.lanes import new_lane, of_lane, transactional_id
from checkback.wire.ledger import Ledger
from checkback.wire.protocol import HalfPosition, Message, Topics, half_headers

_ENDPOINTS = 4
_START_SECONDS = 180.0
_MOST_SECONDS = 900.0
_AT_ONCE = 16
"""Lanes that are opened at the same time."""
_DELIVERS_ONE_IN = 10
"""So many lanes die with an op unsaid; each of them keeps a client until then."""
_VALUE = bytes(256)


@dataclass(frozen=True)
class DeadLanes:
    """What to measure."""

    lanes: int = 1_000
    half_messages: int = 100
    """Of each lane."""
    groups: int = 4
    cores: int = 2


@dataclass(frozen=True)
class DeadLanesResult:
    """Seconds are from the moment at which the last lane was dead."""

    lanes: int
    half_messages: int
    half_of_all_seconds: float
    all_seconds: float
    delivered_once: int


def measure_dead_lanes(plan: DeadLanes, tell: Tell = lambda _line: None) -> DeadLanesResult:
    """Have them die.

    Raises:
        CheckbackError: the job ended, something took far too long, or not each message was there once.
    """
    with (
        workplace(plan.cores, RETURNED_TOPIC) as place,
        tempfile.TemporaryDirectory(prefix="checkback-dead-lanes-") as folder,
        endpoints(plan.lanes * plan.half_messages) as asking,
        RunningJob(Path(folder) / "job", job_settings(place, Path(folder))) as job,
    ):
        return _Scene(plan, place.bootstrap_servers, asking, job, tell).play()


class _Lane(NamedTuple):
    name: str
    writer: Lane | None
    """Of one that delivers."""


class _Scene:
    def __init__(self, plan: DeadLanes, bootstrap_servers: str, asking: Endpoints, job: RunningJob, tell: Tell) -> None:
        self._plan = plan
        self._bootstrap_servers = bootstrap_servers
        self._asking = asking
        self._job = job
        self._tell = tell
        self._topics = Topics()
        self._producer = Producer({**client(bootstrap_servers), "linger.ms": 5})
        self._reader = ReturnedReader(bootstrap_servers)
        self._heartbeats = Heartbeats(bootstrap_servers)

    def play(self) -> DeadLanesResult:
        """All of it; see the module's text."""
        threads = (self._reader, self._heartbeats)
        for thread in threads:
            thread.start()
        try:
            return self._played()
        finally:
            for thread in threads:
                thread.stop()

    def _played(self) -> DeadLanesResult:
        plan, reader, job = self._plan, self._reader, self._job
        total = plan.lanes * plan.half_messages
        for group in self._groups():
            self._heartbeats.announce(group, self._asking.open(group, _ENDPOINTS))
        self._tell(f"opening {plan.lanes} lanes")
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            lanes = list(pool.map(self._opened, range(plan.lanes)))
        job.wait_until(lambda: "Running;" in job.said(), _START_SECONDS, "started")
        self._write(lanes)
        dead = time.time()
        self._tell(f"all are dead, with {plan.half_messages} half messages each")
        job.wait_until(lambda: reader.delivered >= total, _MOST_SECONDS, f"decided {total} transactions")
        half, all_ = (
            round(next(one.at for one in reader.samples if one.delivered >= part) - dead, 1)
            for part in (total // 2, total)
        )
        once = delivered_once(self._bootstrap_servers, total, RETURNED_TOPIC)
        return DeadLanesResult(plan.lanes, plan.half_messages, half, all_, once)

    def _groups(self) -> Iterator[str]:
        return (f"dead{number}" for number in range(self._plan.groups))

    def _opened(self, number: int) -> _Lane:
        name = new_lane()
        place = LanePlace(self._bootstrap_servers, self._topics, transactional_id(self._group(number), name), {})
        writer = Lane(place)
        writer.open()
        if number % _DELIVERS_ONE_IN == 0:
            return _Lane(name, writer)
        writer.close()
        return _Lane(name, None)

    def _group(self, number: int) -> str:
        return f"dead{number % self._plan.groups}"

    def _write(self, lanes: Sequence[_Lane]) -> None:
        """All half messages, and what some lanes deliver."""
        firsts: dict[int, HalfPosition] = {}

        def written(number: int, error: KafkaError | None, half: Report) -> None:
            if error is not None:
                raise KafkaException(error)
            firsts[number] = HalfPosition(half.partition() or 0, half.offset() or 0)

        for number, lane in enumerate(lanes):
            for one in range(self._plan.half_messages):
                headers = of_lane(half_headers(self._name(number, one), self._group(number), RETURNED_TOPIC), lane.name)
                heard = partial(written, number) if one == 0 else None
                partition = (number + one) % HALF_PARTITIONS
                produce(self._producer, self._topics.half, _VALUE, b"%d" % number, partition, headers, heard)
        self._producer.flush()
        for number, lane in enumerate(lanes):
            if lane.writer is not None:
                message = Message(RETURNED_TOPIC, _VALUE, b"%d" % number)
                half = lane_half(self._name(number, 0), lane.name, [message], numbered=False)
                lane.writer.deliver(half.records, Ledger([firsts[number]]))
                lane.writer.close()

    def _name(self, number: int, one: int) -> str:
        return f"{self._group(number)}-{number * self._plan.half_messages + one}"
