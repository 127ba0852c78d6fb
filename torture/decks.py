"""Decks beside the thirty rounds of :mod:`torture.schedule`: machines lose power, or a disk fails; somebody stands
still.
"""

import random
from collections.abc import Iterator
from enum import StrEnum
from itertools import count

from streaming.batch.failpoints import Failpoint
from torture.schedule import PUBLISHING, Fault, Round


class Deck(StrEnum):
    """Which faults a run has."""

    ALL = "all"
    """Those of :mod:`torture.schedule`."""
    POWER = "power"
    """The job, the producers and three brokers have machines of their own: see :mod:`torture.power_ground`."""
    PAUSES = "pauses"
    DISK = "disk"
    CLUSTER = "cluster"
    """On a cluster: see :mod:`torture.cluster_ground`."""
    CLUSTER_ON_S3 = "cluster-on-s3"
    """The same, with the checkpoint in S3."""
    SINKS = "sinks"
    """Four tables, and the stores that hold them: see :mod:`torture.sinks_ground`."""


class MachineFault(StrEnum):
    """What is done. Pauses are a SIGSTOP of 5 to 60 s."""

    POWER_LOST = "the job's machine loses power"
    SHOP_POWER_LOST = "the producers' machine loses power"
    BROKER_POWER_LOST = "a broker loses power, and is started at once"
    BROKER_POWER_AWAY = "a broker loses power, and is away until messages come without it"
    PYTHON_PAUSED = "the driver's Python paused"
    JVM_PAUSED = "the driver's JVM paused"
    EXECUTOR_PAUSED = "an executor paused"
    WORKERS_PAUSED = "Python workers paused"
    JOB_PAUSED = "the whole job paused"
    CHECK_SERVICE_PAUSED = "check service paused"
    PRODUCER_PAUSED = "producers paused"
    BROKER_PAUSED = "broker paused"
    DISK_FULL = "the disk of the job's machine is full"
    DISK_READ_ONLY = "the disk of the job's machine becomes read-only"
    CHECKPOINT_COPIED = "the checkpoint is copied, and a job is started on the copy"
    CHECKPOINT_OLD = "an older copy of the checkpoint is put in its place"


class ClusterFault(StrEnum):
    """What is done to a cluster. Who is lost is killed, and comes back."""

    WORKER_LOST = "a worker lost"
    EXECUTOR_LOST = "an executor lost"
    MASTER_LOST = "Spark's master lost"
    DRIVER_LOST = "the driver lost"
    BROKER_LOST = "a broker lost"
    BROKER_RESTARTED = "a broker restarted"
    TWO_BROKERS_LOST = "two brokers lost"
    BROKER_CUT_OFF = "a broker stands still for 30 s"
    DATA_NODE_LOST = "a data node lost"
    NAME_NODE_LOST = "the name node lost"
    GROWN = "other state partitions, cut off on the way"
    S3_LOST = "S3 lost for 10 s"
    S3_CUT_OFF = "S3 stands still for 30 s"


class SinkFault(StrEnum):
    """What is done to a job with tables, and to their stores."""

    KILLED_BEFORE = "driver killed before a batch is in any table"
    KILLED_BETWEEN = "driver killed when a batch is in some tables"
    KILLED_AFTER = "driver killed when a batch is in all tables"
    JOB_STOPPED = "the job stands still for 3 to 15 s"
    COMMIT_ANSWER_LOST = "PostgreSQL's answer to COMMIT lost"
    DATABASE_CRASHED = "PostgreSQL crashed and restarted while the job is connected"
    DATABASE_AWAY = "PostgreSQL away for 10 s"
    DATABASE_READ_ONLY = "PostgreSQL read-only for 10 s"
    S3_AWAY = "S3 killed, and away for 10 s"
    S3_STOPPED = "S3 stands still for 15 s"
    S3_ANSWER_LOST = "S3's answer to a new entry of the Delta log lost"
    COMPACTED = "driver killed, both Delta tables compacted by another process"


_OF_HDFS = (ClusterFault.DATA_NODE_LOST, ClusterFault.NAME_NODE_LOST)
_OF_S3 = (ClusterFault.S3_LOST, ClusterFault.S3_CUT_OFF)
DECKS: dict[Deck, tuple[StrEnum, ...]] = {
    Deck.POWER: (
        MachineFault.POWER_LOST,
        MachineFault.SHOP_POWER_LOST,
        MachineFault.BROKER_POWER_LOST,
        MachineFault.BROKER_POWER_AWAY,
    ),
    Deck.PAUSES: (
        MachineFault.PYTHON_PAUSED,
        MachineFault.JVM_PAUSED,
        MachineFault.EXECUTOR_PAUSED,
        MachineFault.WORKERS_PAUSED,
        MachineFault.JOB_PAUSED,
        MachineFault.CHECK_SERVICE_PAUSED,
        MachineFault.PRODUCER_PAUSED,
        MachineFault.BROKER_PAUSED,
    ),
    Deck.DISK: (
        MachineFault.DISK_FULL,
        MachineFault.DISK_READ_ONLY,
        MachineFault.CHECKPOINT_COPIED,
        MachineFault.CHECKPOINT_OLD,
    ),
    Deck.CLUSTER: tuple(fault for fault in ClusterFault if fault not in _OF_S3),
    Deck.CLUSTER_ON_S3: tuple(fault for fault in ClusterFault if fault not in _OF_HDFS),
    Deck.SINKS: (
        *SinkFault,
        Fault.DRIVER_KILLED,
        Fault.JOB_SUSPENDED,
        Fault.DATABASE_CUT,
        MachineFault.POWER_LOST,
        MachineFault.DISK_FULL,
        MachineFault.DISK_READ_ONLY,
    ),
}
_STEPS: dict[StrEnum, tuple[Failpoint, ...]] = {
    SinkFault.KILLED_BEFORE: (Failpoint.BEFORE_PUBLISH,),
    SinkFault.KILLED_BETWEEN: (Failpoint.BETWEEN_DESTINATIONS,),
    SinkFault.KILLED_AFTER: (Failpoint.AFTER_PUBLISH,),
    SinkFault.COMPACTED: PUBLISHING,
    Fault.JOB_SUSPENDED: PUBLISHING,
}
"""Of faults that strike at a step."""
NEEDS_DISK = frozenset({Deck.POWER, Deck.DISK})
"""Decks whose job has a disk of its own: see :mod:`torture.disk`."""
_MOST_DELAY_SECONDS = 6.0
"""More than the 5 s after which ext4 writes its journal by itself."""


def rounds_of(deck: Deck, seed: int) -> Iterator[Round]:
    """Rounds without end: each fault of the deck once, in an order of their own, and again."""
    chance = random.Random(seed)  # noqa: S311  (dice, no secret)
    numbers = count(1)
    while True:
        cards = list(DECKS[deck])
        chance.shuffle(cards)
        for fault in cards:
            step = chance.choice(_STEPS[fault]) if fault in _STEPS else None
            yield Round(next(numbers), fault, step, chance.uniform(0, _MOST_DELAY_SECONDS), chance.getrandbits(32))
