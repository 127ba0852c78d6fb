"""Faults of machines that lose power, other than the job's: a broker of three; the producers with their database."""

import random
import signal
import time
from pathlib import Path

import psutil

from checkback.exceptions import BrokerStartError
from checkback.kafka.librdkafka.library import AdminClient, KafkaException
from checkback.local import LocalKafka
from torture.decks import MachineFault
from torture.disk import Disk
from torture.machine import refuse_given_up
from torture.power_ground import PowerGround
from torture.processes import all_of, send
from torture.schedule import Round
from torture.system import System
from torture.waiting import GIVE_UP_SECONDS, NotRecoveredError

_ASK_SECONDS = 10.0


def lose_broker(system: System, this: Round) -> float:
    """1. One of three loses power.  2. It is started on what its disk had: at once, or when
    messages are delivered without it.  3. The next may be lost when all replicas are in sync.

    Returns:
        When recovery began (``time.time()``).

    Raises:
        NotRecoveredError: it could not be started, nothing was delivered, or somebody ended for good.
    """
    ground, since = _ground(system), time.time()
    broker = random.Random(this.seed).choice(ground.kafka.brokers)  # noqa: S311  (dice, no secret)
    disk = ground.disk_of(broker)
    had = _bytes_of_topics(disk)
    cut_power(broker.pid, disk)  # 1
    broker.kill()
    system.lost_bytes = had - _bytes_of_topics(disk)
    if this.fault is MachineFault.BROKER_POWER_LOST:  # 2
        _start(broker)
        system.recoveries.append(system.wait_for_delivery(since))
    else:
        system.recoveries.append(system.wait_for_delivery(since))
        _start(broker)
    system.wait_until(lambda: _all_in_sync(ground), GIVE_UP_SECONDS, "not all replicas were in sync")  # 3
    refuse_given_up(system, this)
    return time.time()


def lose_shop(system: System, this: Round) -> float:
    """1. The machine with the producers and their database loses power.  2. They are started on what its disk had: what
    that database holds now is what must be delivered, and nothing else.
    """
    system.leave_database()
    cut_power(system.shop.pid, _ground(system).shop_disk)  # 1
    system.shop.kill()
    since = time.time()
    system.shop = system.start_shop()  # 2
    refuse_given_up(system, this)
    return since


def cut_power(process: int | None, disk: Disk) -> None:
    """1. All of a process stands still.  2. What is not on its disk is gone.  3. It dies.  4. The disk is mounted."""
    processes = all_of(process) if process else []
    dying = [psutil.Process(one) for one in processes]
    send(processes, signal.SIGSTOP)  # 1
    disk.cut()  # 2
    send(processes, signal.SIGKILL)  # 3
    psutil.wait_procs(dying, GIVE_UP_SECONDS)
    disk.unmount()  # 4
    disk.mount()


def _ground(system: System) -> PowerGround:
    assert isinstance(system.ground, PowerGround)  # noqa: S101  (the deck says so)
    return system.ground


def _start(broker: LocalKafka) -> None:
    try:
        broker.start()
    except BrokerStartError as error:
        raise NotRecoveredError(f"The broker did not start on what its disk had: {error}") from error


def _bytes_of_topics(disk: Disk) -> int:
    return sum(file.stat().st_size for file in Path(disk.folder, "log").glob("*/*.log"))


def _all_in_sync(ground: PowerGround) -> bool:
    try:
        known = AdminClient({"bootstrap.servers": ground.servers}).list_topics(timeout=_ASK_SECONDS)
    except KafkaException:
        return False
    partitions = [one for topic in known.topics.values() for one in topic.partitions.values()]
    return bool(partitions) and all(len(one.isrs) == len(one.replicas) for one in partitions)
