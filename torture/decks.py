"""Decks beside the thirty rounds of :mod:`torture.schedule`: machines lose power, or a disk fails; somebody stands
still.
"""

import random
from collections.abc import Iterator
from enum import StrEnum
from itertools import count

from torture.schedule import Round


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
}
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
            yield Round(next(numbers), fault, None, chance.uniform(0, _MOST_DELAY_SECONDS), chance.getrandbits(32))
