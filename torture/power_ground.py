"""The ground of a fault run in which machines lose power: job, producers and each of three brokers have own disks."""

import shutil
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from checkback.local import LocalKafka, LocalKafkaCluster
from torture.disk import Disk
from torture.ground import Ground
from torture.three_brokers import ThreeBrokers


@dataclass(frozen=True, kw_only=True)
class PowerGround(ThreeBrokers):
    """Brokers are set as Kafka is by default: nothing of a topic is synchronised with the disk."""

    broker_disks: Sequence[Disk]
    """All of each: its topics, and the log of the cluster's metadata."""
    shop_disk: Disk

    @property
    def of_shop(self) -> Path:
        """On its disk."""
        return self.shop_disk.folder

    @property
    def synchronous(self) -> str:
        """As SQLite is by default: each commit waits for the disk."""
        return "FULL"

    @property
    def may_forget(self) -> bool:
        """What a disk had not, nobody else may have."""
        return True

    def disk_of(self, broker: LocalKafka) -> Disk:
        """That of one of the brokers."""
        return self.broker_disks[self.kafka.brokers.index(broker)]

    def start_servers(self) -> None:
        """Make the disks, and start the brokers on theirs."""
        for disk in (self.shop_disk, *self.broker_disks):
            disk.folder.parent.mkdir(exist_ok=True)
            disk.make()
        self.kafka.start()
        for disk in self.broker_disks:  # Kafka's format synchronises nothing, and without its files no broker starts
            disk.settle()

    def close(self) -> None:
        """Stop the brokers, keep what they have said since they were started last, and unmount the disks."""
        self.kafka.stop()
        for broker, disk in zip(self.kafka.brokers, self.broker_disks, strict=True):
            with suppress(OSError):
                shutil.copy(broker.log_file, self.folder / f"broker-{disk.folder.name}.log")
        for disk in (self.shop_disk, *self.broker_disks):
            disk.close()
        super().close()


def with_power_to_lose(usual: Ground) -> PowerGround:
    """A ground with a disk of the job's, and with three brokers in place of one."""
    place = usual.folder / "kafka"
    kafka = LocalKafkaCluster(place)
    return PowerGround(
        usual.folder,
        kafka.brokers[0],
        usual.clock,
        usual.tables,
        usual.disk,
        usual.executors,
        kafka=kafka,
        broker_disks=[Disk(place, str(number)) for number, _ in enumerate(kafka.brokers, 1)],
        shop_disk=Disk(usual.folder, "shop"),
    )
