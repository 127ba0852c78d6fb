"""Checks: how many a check service answers on one core, and what a group that hangs costs the others.

The service has a process and a core of its own; Kafka, the endpoints and the load share the other cores. Answer time is
from the check's timestamp, taken when it is sent, to the time at which the broker appended the answer to ``cb.op``.
"""

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Event
from typing import Any

import numpy as np
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # it re-exports them without saying so
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from bench.endpoint import endpoint_ports, pin
from bench.running import SPAWN
from bench.workload import HALF_PARTITIONS, REAL_TOPIC, workplace
from checkback.exceptions import CheckbackError
from checkback.wire.checks import Announcement, CheckRequest
from checkback.wire.protocol import ACTION, ID, Action, HalfPosition, Topics
from checkers import CheckService
from conf import Settings

GROUPS = 10
ENDPOINTS_PER_GROUP = 4
_HANGING = "group-9"
_LIMIT_SECONDS = 300.0
_START_SECONDS = 60.0
_WARM_UP_SECONDS = 10


@dataclass(frozen=True)
class ChecksResult:
    """Rates are checks per second, times ms. ``*_alone`` is without, ``*_beside`` with a group that hangs."""

    checks_per_second: float
    checks: int
    batch: int
    seconds: float
    service_cores: list[int]
    service_cpu_seconds: float
    isolation_per_second: int
    p50_alone_ms: float
    p99_alone_ms: float
    p50_beside_ms: float
    p99_beside_ms: float
    p99_ratio: float
    hanging_endpoints: int
    endpoints: int


def measure_checks(
    checks: int = 60_000, batch: int = 100, per_second: int = 300, seconds: int = 20, value_bytes: int = 256
) -> ChecksResult:
    """Work off preloaded checks of ten groups; then send at a steady rate, without and with a group that hangs.

    Raises:
        CheckbackError: a check was not answered with the endpoint's *commit*.
    """
    service_cores, other_cores = _cores()
    before = _affinity()
    pin(other_cores)  # what we start inherits it
    try:
        with workplace() as place, _endpoints(other_cores) as ports:
            load = _Load(place.bootstrap_servers, ports, batch, value_bytes)
            load.preload(checks)
            settings = _with_room(place.settings, checks)
            with _service(settings, service_cores) as cpu_seconds:
                rate, took, used = _throughput(load, checks, cpu_seconds)
                load.steady("warm-up", per_second, _WARM_UP_SECONDS, hanging=False)  # the broker's small batches
                alone = load.steady("alone", per_second, seconds, hanging=False)
                beside = load.steady("beside", per_second, seconds, hanging=True)
    finally:
        pin(before)
    return ChecksResult(
        checks_per_second=round(rate, 1),
        checks=checks,
        batch=batch,
        seconds=round(took, 3),
        service_cores=list(service_cores),
        service_cpu_seconds=round(used, 2),
        isolation_per_second=per_second,
        p50_alone_ms=round(float(np.percentile(alone, 50)), 1),
        p99_alone_ms=round(float(np.percentile(alone, 99)), 1),
        p50_beside_ms=round(float(np.percentile(beside, 50)), 1),
        p99_beside_ms=round(float(np.percentile(beside, 99)), 1),
        p99_ratio=round(float(np.percentile(beside, 99) / np.percentile(alone, 99)), 2),
        hanging_endpoints=ENDPOINTS_PER_GROUP,
        endpoints=GROUPS * ENDPOINTS_PER_GROUP,
    )


def _affinity() -> list[int]:
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []


def _cores() -> tuple[list[int], list[int]]:
    """One core for the service and the rest for all others; nothing, where there is only one or no telling."""
    cores = _affinity()
    return (cores[-1:], cores[:-1]) if len(cores) > 1 else ([], [])


def _with_room(settings: Settings, checks: int) -> Settings:
    return settings.model_copy(update={"checks": settings.checks.model_copy(update={"queue_per_group": checks})})


@contextmanager
def _endpoints(cores: Sequence[int]) -> Iterator[dict[str, list[int]]]:
    """A process with all endpoints; ports by group."""
    names = [f"group-{number}" for number in range(GROUPS)]
    with endpoint_ports((GROUPS - 1) * ENDPOINTS_PER_GROUP, ENDPOINTS_PER_GROUP, cores) as (well, hanging):
        ports = {name: well[index :: GROUPS - 1] for index, name in enumerate(names[:-1])}
        yield {**ports, _HANGING: hanging}


@contextmanager
def _service(settings: Settings, cores: Sequence[int]) -> Iterator["_CpuSeconds"]:
    """A process with a check service."""
    ours, theirs = SPAWN.Pipe()
    stopping = SPAWN.Event()
    process = SPAWN.Process(target=_serve_checks, args=(settings, cores, theirs, stopping), daemon=True)
    process.start()
    try:
        yield _CpuSeconds(ours)
    finally:
        stopping.set()
        process.join(_START_SECONDS)
        process.terminate()


def _serve_checks(settings: Settings, cores: Sequence[int], asked: Connection, stopping: Event) -> None:
    pin(cores)
    service = CheckService(settings)
    service.start()
    try:
        while not stopping.is_set():
            service.raise_if_dead()
            if asked.poll(0.2):
                asked.recv()
                asked.send(time.process_time())
    finally:
        service.stop()


class _CpuSeconds:
    """Asks the service's process how long it computed."""

    def __init__(self, service: Connection) -> None:
        self._service = service

    def now(self) -> float:
        self._service.send(None)
        if not self._service.poll(_START_SECONDS):
            raise CheckbackError("The check service does not answer.")
        return float(self._service.recv())


def _throughput(load: "_Load", checks: int, cpu_seconds: _CpuSeconds) -> tuple[float, float, float]:
    """Checks per second, and over how many seconds, between the first tenth and the last; and CPU seconds used."""
    used = cpu_seconds.now()
    times = np.sort(np.array([at_ms for _, at_ms in load.answers(checks)]))
    used = cpu_seconds.now() - used
    first, last = times[len(times) // 10], times[-1]
    seconds = float(last - first) / 1000
    return (len(times) - len(times) // 10) / seconds, seconds, used


class _Load:
    """Writes checks as the job does, and reads the answers."""

    def __init__(
        self, bootstrap_servers: str, ports: Mapping[str, Sequence[int]], batch: int, value_bytes: int
    ) -> None:
        self._topics = Topics()
        self._value = bytes(value_bytes)
        self._ports = ports
        self._batch = batch
        self._number = 0
        _append_times(bootstrap_servers, self._topics.op)
        kafka = {"bootstrap.servers": bootstrap_servers, "log_level": 2}
        self._producer = Producer({**kafka, "linger.ms": 2, "queue.buffering.max.messages": 1_000_000})
        self._reader = Consumer({**kafka, "group.id": "bench"})
        self._reader.assign([TopicPartition(self._topics.op, number, 0) for number in range(HALF_PARTITIONS)])

    def preload(self, checks: int) -> None:
        """Announce all endpoints, and write checks of the groups that answer, in turn."""
        self.announce()
        for number in range(checks):
            self._send(f"load-{number}", f"group-{number % (GROUPS - 1)}")
        self._producer.flush()

    def announce(self) -> None:
        """As heartbeats do."""
        for group, ports in self._ports.items():
            for port in ports:
                said = Announcement(group, str(port), f"http://127.0.0.1:{port}/", 0, self._batch)
                key, value = said.to_record()
                self._producer.produce(self._topics.producers, value, key, 0)
        self._producer.flush()

    def steady(self, name: str, per_second: int, seconds: int, *, hanging: bool) -> Any:
        """Answer times (ms) of the groups that answer; the hanging one gets a tenth as many checks more, or none."""
        self.announce()
        sent: dict[str, int] = {}
        start = time.monotonic()
        for number in range(per_second * seconds):
            while (pause := start + number / per_second - time.monotonic()) > 0:
                self._producer.poll(pause)
            transaction_id = f"{name}-{number}"
            sent[transaction_id] = time.time_ns() // 1_000_000
            self._send(transaction_id, f"group-{number % (GROUPS - 1)}", sent[transaction_id])
            if hanging and number % (GROUPS - 1) == 0:
                self._send(f"{name}-hangs-{number}", _HANGING)
        self._producer.flush()
        return np.array([at_ms - sent[answered] for answered, at_ms in self.answers(len(sent), sent)])

    def answers(self, number: int, of: Mapping[str, int] | None = None) -> list[tuple[str, int]]:
        """The next answers: transaction id, time of appending (ms); only those of ``of``, if given."""
        found: list[tuple[str, int]] = []
        deadline = time.monotonic() + _LIMIT_SECONDS
        while len(found) < number:
            if time.monotonic() > deadline:
                raise CheckbackError(f"Only {len(found)} of {number} checks were answered.")
            for message in self._reader.consume(10_000, timeout=0.5):
                headers: dict[str, Any] = dict(message.headers() or [])
                transaction_id = headers[ID].decode()
                if of is not None and transaction_id not in of:
                    continue
                if headers[ACTION] != Action.COMMIT.encode():
                    raise CheckbackError(f"{transaction_id}: {headers[ACTION].decode()} ({message.value()!r}).")
                found.append((transaction_id, message.timestamp()[1]))
        return found

    def _send(self, transaction_id: str, group: str, at_ms: int = 0) -> None:
        self._number += 1
        half = HalfPosition(self._number % HALF_PARTITIONS, self._number)
        headers = [("content-type", b"application/json")]
        request = CheckRequest(transaction_id, group, REAL_TOPIC, b"customer", self._value, headers, half, 1, 15, 0)
        key, value, all_headers = request.to_record()
        self._producer.produce(
            self._topics.check, value, key, half.partition, headers=list(all_headers), timestamp=at_ms
        )
        self._producer.poll(0)


def _append_times(bootstrap_servers: str, topic: str) -> None:
    entry = ConfigEntry("message.timestamp.type", "LogAppendTime", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 2})
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(30)
