"""What an installation needs for a load: arithmetic on measured coefficients, and a batch that settles at its own size.

Nothing here was measured on more than two cores. Each coefficient says where it is from; ``docs/capacity.md`` says what
that is worth.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

MIB = 1 << 20
_DAY_SECONDS = 86_400
_PLAIN_BYTES = 256


class Coefficients(NamedTuple):
    """Of ``docs/performance.md``, on the machine where RocketMQ 5.4 does some 7,000 transactions/s."""

    job_us: float = 35.2
    """CPU of the job a transaction of 256 B: five runs of ``bench throughput`` on 2026-11-27."""
    job_us_per_byte: float = 0.017
    """More of it, a byte of value: 46.7 µs with 1 KB where 256 B took 33 to 35."""
    broker_us: float = 5.8
    """CPU of Kafka for what the job reads and writes: the same five runs."""
    planning_seconds: float = 0.25
    """Of a batch, before its tasks: with 400 ms for a batch of which 200 are the two Python workers."""
    tasks_seconds: float = 0.20
    """Of a batch's tasks, however little they have to do: state, then sink."""
    partition_seconds: float = 0.006
    """Of the driver, a state partition and batch: three stages of a task each. Assumed, not measured."""
    open_us: float = 1.9
    """CPU of a small batch, an open transaction: 405 ms with 10,000, 577 with 100,000 (``bench open``)."""
    open_bytes: float = 1_004 * MIB / 1e6
    """Of the scratch folder, an open transaction of 256 B: 1,004 MiB with a million."""
    checkpoint_bytes: float = 318 * MIB / 1e6
    """Likewise of the checkpoint."""
    base_mib: float = 2_100
    """Java and Python with 100,000 open."""
    open_mib: float = 0.0005
    """More of it, an open transaction: 2,540 MiB with a million."""
    checks_per_second: float = 6_000
    """Of one check service, on half of a core."""


MEASURED = Coefficients()


@dataclass(frozen=True)
class Load:
    """What comes: transactions a second, bytes of a message, and how long one is undecided."""

    per_second: float
    value_bytes: int = _PLAIN_BYTES
    open_seconds: float = 5.0
    unanswered_share: float = 0.01
    """Of transactions that a check decides."""
    kept_days: float = 12.0
    """Half messages and ops: what ``checkback topics create`` sets with the default settings."""
    replicas: int = 3


@dataclass(frozen=True)
class Needs:
    """What it takes. CPU in cores, at 60 % of each; times in seconds; bytes of all replicas together."""

    state_partitions: int
    job_cores: float
    broker_cores: float
    batch_seconds: float
    batch_transactions: int
    p50_seconds: float
    memory_mib: int
    checkpoint_bytes: int
    scratch_bytes: int
    kafka_bytes_per_second: int
    kafka_kept_bytes: int
    check_services: int


def needs_of(load: Load, measured: Coefficients = MEASURED) -> Needs:
    """As many state partitions as keep each core busy for 60 % of a batch; then the batch that settles.

    A batch of *t* seconds has what came in the one before, so ``t = fixed + rate * t * cost / partitions``: it settles
    where ``t = fixed / (1 - rate * cost / partitions)``. A message waits for half a batch, and is readable after one.
    """
    cost = (measured.job_us + measured.job_us_per_byte * max(0, load.value_bytes - _PLAIN_BYTES)) / 1e6
    opened = load.per_second * load.open_seconds
    busy = load.per_second * cost
    partitions = max(2, math.ceil(busy / 0.6))
    fixed = (
        measured.planning_seconds
        + measured.tasks_seconds
        + measured.partition_seconds * partitions
        + measured.open_us / 1e6 * opened / partitions
    )
    batch = fixed / (1 - busy / partitions)
    stored = 2 * (load.value_bytes + 250) + 200  # half message, message, op, with their headers
    kept = load.value_bytes + 250 + 200
    return Needs(
        state_partitions=partitions,
        job_cores=round(busy / 0.6 + fixed / batch, 1),
        broker_cores=round(load.per_second * measured.broker_us * 2 * load.replicas / 1e6 / 0.6, 1),
        batch_seconds=round(batch, 2),
        batch_transactions=round(load.per_second * batch),
        p50_seconds=round(1.5 * batch, 2),
        memory_mib=round(measured.base_mib * max(1, partitions / 2) + measured.open_mib * opened),
        checkpoint_bytes=round(measured.checkpoint_bytes * opened * max(1, load.value_bytes / _PLAIN_BYTES)),
        scratch_bytes=round(measured.open_bytes * opened * max(1, load.value_bytes / _PLAIN_BYTES)),
        kafka_bytes_per_second=round(load.per_second * stored * load.replicas),
        kafka_kept_bytes=round(load.per_second * kept * load.kept_days * _DAY_SECONDS * load.replicas),
        check_services=max(1, math.ceil(load.per_second * load.unanswered_share / measured.checks_per_second)),
    )
