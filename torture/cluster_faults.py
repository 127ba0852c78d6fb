"""Faults of a cluster: machines are lost, and come back."""

import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import StrEnum

from checkback.local import LocalKafka
from torture.cluster_ground import ClusterGround
from torture.decks import ClusterFault
from torture.ground import STATE_PARTITIONS
from torture.local_hdfs import LocalHdfs
from torture.local_s3 import LocalS3
from torture.machine import stand_still
from torture.processes import Process, all_of
from torture.schedule import Round
from torture.system import System
from torture.waiting import GIVE_UP_SECONDS, NotRecoveredError

_AWAY_SECONDS = 10.0
_CUT_OFF_SECONDS = 30.0
_PARTITIONS = "JOB__STATE_PARTITIONS"
_GROWN_TO = range(1, 5)
_GROW_SECONDS = (4.0, 40.0)
"""What it takes on two busy cores, more or less."""
_TRIES = 5


def strike(system: System, this: Round) -> float:
    """Do it, and bring back what was lost once messages are delivered without it, where they can be.

    Returns:
        When recovery began (``time.time()``).

    Raises:
        NotRecoveredError: nothing was delivered meanwhile, or somebody ended for good.
    """
    ground = system.ground
    assert isinstance(ground, ClusterGround)  # noqa: S101  (the deck says so)
    chance = random.Random(this.seed)  # noqa: S311  (dice, no secret)
    since = _FAULTS[this.fault](system, ground, chance)
    if system.given_up:
        raise NotRecoveredError(f"Round {this.number}, {this}: {' | '.join(system.given_up)}.")
    return since


def _lose_worker(system: System, ground: ClusterGround, chance: random.Random) -> float:
    """Its executors and their Python are gone with it."""
    number = chance.choice(list(ground.spark.pids))
    ground.spark.kill_worker(number)
    _delivers_without(system)
    ground.spark.start_worker(number)
    return time.time()


def _lose_executor(_system: System, ground: ClusterGround, chance: random.Random) -> float:
    executors = ground.spark.executors()
    if executors:
        chance.choice(executors).kill()
    return time.time()


def _lose_master(system: System, ground: ClusterGround, _chance: random.Random) -> float:
    ground.spark.kill_master()
    _delivers_without(system)
    ground.spark.start_master()
    return time.time()


def _lose_driver(system: System, _ground: ClusterGround, _chance: random.Random) -> float:
    system.job.kill_driver()
    since = time.time()
    system.restart_job()
    return since


def _grow(system: System, ground: ClusterGround, chance: random.Random) -> float:
    """1. The job stops.  2. ``checkback grow`` dies at some moment.  3. It is typed again, or given up.  4. Go on."""
    job = system.job
    job.terminate()  # 1
    if job.wait(GIVE_UP_SECONDS) is None:
        raise NotRecoveredError("The job did not stop.")
    before = int(system.changed_settings.get(_PARTITIONS, STATE_PARTITIONS))
    wanted = chance.choice([number for number in _GROWN_TO if number != before])
    growing = _growing(system, ground, wanted)  # 2
    growing.wait(chance.uniform(*_GROW_SECONDS))
    growing.kill()
    last = chance.choice([wanted, wanted, before])
    _until_grown(system, ground, last)  # 3
    system.changed_settings[_PARTITIONS] = str(last)
    since = time.time()
    system.restart_job()  # 4
    return since


def _until_grown(system: System, ground: ClusterGround, partitions: int) -> None:
    for _ in range(_TRIES):
        growing = _growing(system, ground, partitions)
        if growing.wait(GIVE_UP_SECONDS) == 0:
            return
        growing.kill()
        system.note_stop(growing, "grow")
        if system.given_up:
            break
    raise NotRecoveredError(f"It did not get {partitions} state partitions: {growing.said()[-2_000:]}")


def _growing(system: System, ground: ClusterGround, partitions: int) -> Process:
    command = ["checkback", "grow", "--state-partitions", str(partitions)]
    return Process(command, system.job_environment, ground.folder / "grow.log")


def _lose_broker(system: System, ground: ClusterGround, chance: random.Random) -> float:
    with _without(ground, [chance.choice(ground.kafka.brokers)]):
        _delivers_without(system)
    return time.time()


def _restart_broker(_system: System, ground: ClusterGround, chance: random.Random) -> float:
    broker = chance.choice(ground.kafka.brokers)
    broker.stop()
    broker.start()
    return time.time()


def _lose_two_brokers(system: System, ground: ClusterGround, chance: random.Random) -> float:
    """Without a majority Kafka confirms nothing."""
    with _without(ground, chance.sample(ground.kafka.brokers, 2)):
        system.supervise_for(_AWAY_SECONDS)
    return time.time()


def _cut_broker_off(system: System, ground: ClusterGround, chance: random.Random) -> float:
    """It stands still: its connections stay, and it answers nobody."""
    return stand_still(system, all_of(chance.choice(ground.kafka.brokers).pid), _CUT_OFF_SECONDS)


def _lose_data_node(system: System, ground: ClusterGround, chance: random.Random) -> float:
    hdfs, number = _hdfs(ground), chance.choice([1, 2])
    hdfs.kill(f"data-{number}")
    _delivers_without(system)
    hdfs.start_data_node(number)
    return time.time()


def _lose_name_node(system: System, ground: ClusterGround, _chance: random.Random) -> float:
    hdfs = _hdfs(ground)
    hdfs.kill("name")
    system.supervise_for(_AWAY_SECONDS)
    hdfs.start_name_node()
    return time.time()


def _lose_s3(system: System, ground: ClusterGround, _chance: random.Random) -> float:
    s3 = _s3(ground)
    s3.kill()
    system.supervise_for(_AWAY_SECONDS)
    s3.start()
    return time.time()


def _cut_s3_off(system: System, ground: ClusterGround, _chance: random.Random) -> float:
    return stand_still(system, all_of(_s3(ground).pid), _CUT_OFF_SECONDS)


def _hdfs(ground: ClusterGround) -> LocalHdfs:
    assert isinstance(ground.store, LocalHdfs)  # noqa: S101  (the deck says so)
    return ground.store


def _s3(ground: ClusterGround) -> LocalS3:
    assert isinstance(ground.store, LocalS3)  # noqa: S101  (the deck says so)
    return ground.store


def _delivers_without(system: System) -> None:
    system.recoveries.append(system.wait_for_delivery(time.time()))


@contextmanager
def _without(ground: ClusterGround, brokers: Sequence[LocalKafka]) -> Iterator[None]:
    """They are killed meanwhile, and started again together."""
    for broker in brokers:
        broker.kill()
    try:
        yield
    finally:
        ground.kafka.start()


_FAULTS: Mapping[StrEnum, Callable[[System, ClusterGround, random.Random], float]] = {
    ClusterFault.WORKER_LOST: _lose_worker,
    ClusterFault.EXECUTOR_LOST: _lose_executor,
    ClusterFault.MASTER_LOST: _lose_master,
    ClusterFault.DRIVER_LOST: _lose_driver,
    ClusterFault.BROKER_LOST: _lose_broker,
    ClusterFault.BROKER_RESTARTED: _restart_broker,
    ClusterFault.TWO_BROKERS_LOST: _lose_two_brokers,
    ClusterFault.BROKER_CUT_OFF: _cut_broker_off,
    ClusterFault.DATA_NODE_LOST: _lose_data_node,
    ClusterFault.NAME_NODE_LOST: _lose_name_node,
    ClusterFault.GROWN: _grow,
    ClusterFault.S3_LOST: _lose_s3,
    ClusterFault.S3_CUT_OFF: _cut_s3_off,
}
OF_CLUSTER = frozenset(_FAULTS)
"""Faults that :func:`strike` does."""
