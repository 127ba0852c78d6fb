"""What bad neighbours cost a healthy group: groups that hang, groups with slow names, and a flood of large halves.

1. The healthy group alone, at a steady rate.  2. All the others beside it.  3. Its times from half message to delivery,
beside to alone. The job is ``checkback run``, a process of its own with the check service in it.
"""

import shutil
import subprocess
import tempfile
import threading
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from confluent_kafka import KafkaError, Message, Producer

from bench.memory import MemoryWatch
from bench.outage_endpoints import Endpoints, endpoints
from bench.outage_figures import Course, Times, delivery_times
from bench.outage_load import HEALTHY, RETURNED_TOPIC, HealthyReader, Heartbeats, client, healthy_group
from bench.running import RunningJob, Tell
from bench.workload import HALF_PARTITIONS, STATE_PARTITIONS, produce, workplace
from checkback.producing.delivery import DeliveryMode
from checkback.wire.checks import MAX_BATCH, Announcement
from checkback.wire.protocol import Action, HalfPosition, Source, Topics, half_headers, op_headers

_START_SECONDS = 180.0
_WARM_UP_SECONDS = 60.0
_DRAIN_SECONDS = 120.0
_EACH_PER_SECOND = 1.0
_SOURCE = Path(__file__).parent / "slow_names.c"
_ONE_IN = 4
"""Of the flood's halves: so many have no op."""


@dataclass(frozen=True)
class Neighbours:
    """What to measure."""

    hanging: int = 40
    """Groups whose endpoints take connections and never answer."""
    slow_names: int = 40
    """Groups whose endpoints have names that the resolver takes 20 s for."""
    large_per_second: int = 20
    large_bytes: int = 500_000
    per_second: int = 50
    """Of the healthy group."""
    seconds: float = 60.0
    """For each of the two phases."""
    driver_memory: str = "2g"
    cores: int = 2
    delivery: DeliveryMode = DeliveryMode.JOB
    """Who delivers the healthy group's messages, those that need a check apart."""


@dataclass(frozen=True)
class NeighboursResult:
    """Times of the healthy group are in ms, from half message to delivery; memory is in MiB, of the job's processes."""

    with_op: Times
    with_check: Times
    large_halves: int
    slow_names: int
    """0 where there is no C compiler to make the resolver with."""
    peak_mib: float


def measure_neighbours(neighbours: Neighbours, tell: Tell = lambda _line: None) -> NeighboursResult:
    """Have them move in.

    Raises:
        CheckbackError: the job ended, or did not deliver all of the healthy group's.
    """
    with (
        workplace(neighbours.cores, RETURNED_TOPIC) as place,
        tempfile.TemporaryDirectory(prefix="checkback-neighbours-") as folder,
        endpoints(1_000_000) as asking,
    ):
        return _Scene(neighbours, place.bootstrap_servers, Path(folder), asking, tell).play()


class _Scene:
    def __init__(
        self, neighbours: Neighbours, bootstrap_servers: str, folder: Path, asking: Endpoints, tell: Tell
    ) -> None:
        self._neighbours = neighbours
        self._bootstrap_servers = bootstrap_servers
        self._folder = folder
        self._asking = asking
        self._tell = tell
        self._preload = _slow_resolver(folder)
        self._healthy = healthy_group(neighbours.delivery, bootstrap_servers, neighbours.per_second)
        self._reader = HealthyReader(bootstrap_servers)
        self._heartbeats = Heartbeats(bootstrap_servers)
        self._course = Course()

    def play(self) -> NeighboursResult:
        """All of it; see the module's text."""
        neighbours, course = self._neighbours, self._course
        self._heartbeats.announce(HEALTHY, self._asking.open(HEALTHY, 4))
        threads = (self._heartbeats, self._reader, self._healthy)
        for thread in threads:
            thread.start()
        settings = {
            "KAFKA__BOOTSTRAP_SERVERS": self._bootstrap_servers,
            "JOB__CHECKPOINT": str(self._folder / "checkpoint"),
            "JOB__MASTER": f"local[{neighbours.cores}]",
            "JOB__STATE_PARTITIONS": str(STATE_PARTITIONS),
            "JOB__DRIVER_MEMORY": neighbours.driver_memory,
        }
        crowd = _Crowd(self._bootstrap_servers, neighbours, slow_names=self._slow_names)
        try:
            with RunningJob(self._folder / "job", settings, self._preload) as job:
                memory = MemoryWatch(job.pid)
                memory.start()
                job.wait_until(lambda: bool(self._reader.read), _START_SECONDS, "delivered a message")
                self._pass_time(job, _WARM_UP_SECONDS, "warming up")
                course.quiet = time.time()
                self._pass_time(job, neighbours.seconds, "the healthy group alone")
                course.opening = course.away = time.time()
                for number in range(neighbours.hanging):
                    group = f"hangs{number}"
                    self._heartbeats.announce(group, self._asking.open(group, 0, 1))
                crowd.start()
                self._pass_time(job, neighbours.seconds, "with all its neighbours")
                course.back = course.drained = time.time()
                crowd.stop()
                self._healthy.stop()
                sent = self._healthy.sent
                job.wait_until(lambda: sent.keys() <= self._reader.read.keys(), _DRAIN_SECONDS, "delivered the rest")
                peak = memory.stop()
        finally:
            crowd.stop()
            for thread in reversed(threads):
                thread.stop()
        deliveries = self._reader.deliveries(self._healthy.sent)
        return NeighboursResult(
            delivery_times(deliveries, course, checked=False),
            delivery_times(deliveries, course, checked=True),
            crowd.large,
            self._slow_names,
            round(peak.tree, 1),
        )

    @property
    def _slow_names(self) -> int:
        return self._neighbours.slow_names if self._preload else 0

    def _pass_time(self, job: RunningJob, seconds: float, why: str) -> None:
        self._tell(f"{why}, {seconds:.0f} s")
        job.run_for(seconds)


class _Crowd(threading.Thread):
    """Opens transactions of the groups that nobody answers for, and writes the flood."""

    def __init__(self, bootstrap_servers: str, neighbours: Neighbours, slow_names: int) -> None:
        super().__init__(name="crowd", daemon=True)
        self.large = 0
        self._neighbours = neighbours
        self._slow_names = slow_names
        self._topics = Topics()
        self._producer = Producer({**client(bootstrap_servers), "message.max.bytes": 10_000_000})
        self._groups = [*(f"hangs{n}" for n in range(neighbours.hanging)), *(f"named{n}" for n in range(slow_names))]
        self._payload = bytes(range(256)) * (neighbours.large_bytes // 256)
        self._stopping = threading.Event()

    def run(self) -> None:
        for number in range(self._slow_names):
            announced = Announcement(f"named{number}", "one", f"http://endpoint-{number}.slow:80/", 0, MAX_BATCH)
            key, value = announced.to_record()
            self._producer.produce(self._topics.producers, value, key, 0)
        round_number, began = 0, time.monotonic()
        while not self._stopping.wait(max(0.0, began + round_number / _EACH_PER_SECOND - time.monotonic())):
            for group in self._groups:
                self._open(f"{group}-{round_number}", group, b"v" * 256)
            for number in range(self._neighbours.large_per_second):
                self._flood(round_number * self._neighbours.large_per_second + number)
            self._producer.poll(0)
            round_number += 1

    def stop(self) -> None:
        """Write no more."""
        self._stopping.set()
        if self.is_alive():
            self.join()
            self._producer.flush()

    def _open(self, name: str, group: str, value: bytes) -> None:
        headers = half_headers(name, group, RETURNED_TOPIC, ())
        partition = hash(name) % HALF_PARTITIONS
        produce(self._producer, self._topics.half, value, name.encode(), partition, headers)

    def _flood(self, number: int) -> None:
        name = f"flood-{number}"
        headers = half_headers(name, "flood", RETURNED_TOPIC, ())
        written = partial(self._written, name) if number % _ONE_IN else None
        partition = number % HALF_PARTITIONS
        self.large += 1
        produce(self._producer, self._topics.half, self._payload, name.encode(), partition, headers, written)

    def _written(self, name: str, error: KafkaError | None, half: Message) -> None:
        if error is None:
            position = HalfPosition(half.partition() or 0, half.offset() or 0)
            headers = op_headers(name, "flood", position, Action.COMMIT, Source.PRODUCER)
            self._producer.produce(self._topics.op, b"", None, position.partition, headers=list(headers))


def _slow_resolver(folder: Path) -> dict[str, str]:
    """What the job's process needs to have it; nothing where it cannot be had."""
    compiler = shutil.which("cc")
    if compiler is None:
        return {}
    library = folder / "slow_names.so"
    command = [compiler, "-shared", "-fPIC", "-O2", "-o", str(library), str(_SOURCE), "-ldl"]
    subprocess.run(command, check=True)  # noqa: S603  (our own source)
    return {"LD_PRELOAD": str(library)}
