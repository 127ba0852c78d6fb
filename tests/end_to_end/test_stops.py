"""What stops the job, before any harm, with one sentence; and what it continues from by itself."""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from kafka import KafkaAdminClient
from kafka.structs import OffsetAndMetadata
from kafka.structs import TopicPartition as Partition
from pyspark.sql import SparkSession

from checkback import Message, TransactionProducer
from checkback.exceptions import CheckpointMismatchError, JobFailedError, JobStoppedError, ProgressError
from checkback.operations.topics import TopicAdministration
from streaming import TransactionJob, takeover
from streaming.checkpoint.progress import progress_group
from tests.place import HALF_PARTITIONS, Place, wait_until

KAFKAS_TIME = {"message.timestamp.type": "LogAppendTime"}
_KEPT = {**KAFKAS_TIME, "retention.ms": "-1"}


class Shop:
    """Sends, runs the job on what was sent, and knows what must have been delivered."""

    def __init__(self, place: Place, spark: SparkSession) -> None:
        self.place = place
        self._spark = spark
        self.sent: list[bytes] = []

    @property
    def checkpoint(self) -> Path:
        return self.place.folder / "checkpoint"

    def newest(self, log: str) -> int:
        return max(int(found.name) for found in (self.checkpoint / log).iterdir() if found.name.isdigit())

    def send(self, number: int = 1) -> None:
        with TransactionProducer(self.place.bootstrap_servers, "shop", topics=self.place.topics) as producer:
            for _ in range(number):
                value = b"message %d" % len(self.sent)
                producer.commit(producer.prepare(Message(self.place.real_topic, value)))
                self.sent.append(value)

    def job(self, *, new_checkpoint: bool = False) -> TransactionJob:
        settings = self.place.settings(checks={"in_job": False})
        return TransactionJob(settings, spark=self._spark, new_checkpoint=new_checkpoint)

    def deliver(self, *, new_checkpoint: bool = False, copies: int = 1) -> None:
        """Send one, and run the job until all that was sent is there, and not twice."""
        self.send()
        expected = sorted(self.sent * copies)
        with self.job(new_checkpoint=new_checkpoint) as job:
            wait_until(lambda: job.wait(1) or len(self.delivered()) >= len(expected))
        assert self.delivered() == expected

    def delivered(self) -> list[bytes]:
        return sorted(record.value for record in self.place.read(self.place.real_topic))

    def run_until_it_stops(self, meanwhile: Callable[[], None] = lambda: None) -> None:
        with self.job() as job:
            meanwhile()
            wait_until(lambda: job.wait(1))

    def recreate_topics(self) -> None:
        place, admin = self.place, AdminClient({"bootstrap.servers": self.place.bootstrap_servers})
        for answer in admin.delete_topics([place.topics.half, place.topics.op]).values():
            answer.result()
        wait_until(lambda: place.topics.half not in admin.list_topics(timeout=10).topics)
        with TopicAdministration(place.bootstrap_servers) as administration:
            for name in (place.topics.half, place.topics.op):
                wait_until(partial(administration.create_one, name, HALF_PARTITIONS, 1, _KEPT))


@pytest.fixture
def shop(place: Place, spark: SparkSession) -> Shop:
    return Shop(place, spark)


def test_a_fresh_checkpoint_under_an_old_name_has_to_be_meant(shop: Shop) -> None:
    shop.deliver()
    old = shop.place.folder / "old"
    shop.checkpoint.rename(old)
    with pytest.raises(CheckpointMismatchError, match=r"belongs to another checkpoint.*--new-checkpoint"):
        shop.job().start()
    assert not (shop.checkpoint / "offsets").exists()
    first = shop.sent.copy()
    shop.send()
    with shop.job(new_checkpoint=True) as job:
        wait_until(lambda: job.wait(1) or len(shop.delivered()) >= 3)
    assert shop.delivered() == sorted(first + shop.sent), "said: again"
    shutil.rmtree(shop.checkpoint)
    old.rename(shop.checkpoint)
    with pytest.raises(CheckpointMismatchError, match="belongs to another checkpoint"):
        shop.job().start()


def test_a_topic_made_anew_is_noticed_though_it_has_more_records_than_before(shop: Shop) -> None:
    shop.deliver()
    shop.recreate_topics()
    shop.send(5)
    with pytest.raises(CheckpointMismatchError, match="half was deleted and recreated"):
        shop.job().start()
    assert shop.delivered() == shop.sent[:1]


def test_a_topic_made_anew_under_the_running_job_stops_it(shop: Shop) -> None:
    shop.deliver()
    with pytest.raises(JobStoppedError, match="was deleted"):
        shop.run_until_it_stops(shop.recreate_topics)


def test_records_that_were_deleted_before_they_were_read_stop_the_job(shop: Shop) -> None:
    shop.deliver()
    shop.send(4)
    admin = AdminClient({"bootstrap.servers": shop.place.bootstrap_servers})
    everything = [TopicPartition(shop.place.topics.half, number, -1) for number in range(HALF_PARTITIONS)]
    for answer in admin.delete_records(everything).values():
        answer.result()
    with pytest.raises(CheckpointMismatchError, match="has not read yet are gone") as stop:
        shop.run_until_it_stops()
    assert "\n" not in str(stop.value)
    assert stop.value.__cause__ is not None
    assert shop.delivered() == shop.sent[:1]


def test_an_older_checkpoint_and_lost_progress_are_refused_before_a_batch_is_run(shop: Shop) -> None:
    shop.deliver()
    copy, newer = (shop.place.folder / name for name in ("copy", "newer"))
    shutil.copytree(shop.checkpoint, copy)
    shop.deliver()
    shop.checkpoint.rename(newer)
    copy.rename(shop.checkpoint)
    before = shop.newest("offsets")
    with pytest.raises(ProgressError, match="restored from an older copy"):
        shop.job().start()
    assert shop.newest("offsets") == before
    shutil.rmtree(shop.checkpoint)
    newer.rename(shop.checkpoint)
    place = Partition(shop.place.topics.progress, 0)
    group = progress_group(json.loads((shop.checkpoint / "metadata").read_text())["id"])
    admin = KafkaAdminClient(bootstrap_servers=shop.place.bootstrap_servers)
    try:  # it went back, and it expired
        admin.alter_group_offsets(group, {place: OffsetAndMetadata(0, "", -1)})
        with pytest.raises(ProgressError, match="Kafka has forgotten batches"):
            shop.job().start()
        admin.delete_group_offsets(group, [place])
        with pytest.raises(ProgressError, match="State partition 0 has no progress offset"):
            shop.job().start()
    finally:
        admin.close()


def test_torn_files_of_a_power_loss_are_gone_on_from(shop: Shop) -> None:
    shop.deliver()
    (shop.checkpoint / f"commits/{shop.newest('commits')}").write_bytes(b"")
    shop.deliver()
    begun = shop.newest("offsets")
    assert begun == shop.newest("commits") + 1, "a stop lets the next batch be begun"
    (shop.checkpoint / f"offsets/{begun}").write_bytes(b'v1\n{"batchWater')
    shop.deliver()
    torn = shop.checkpoint / f"state/0/0/{shop.newest('commits') + 1}.changelog"
    torn.write_bytes(torn.read_bytes()[:10])
    shop.deliver()
    snapshot = shop.checkpoint / f"state/0/0/{shop.newest('commits') + 1}.zip"
    snapshot.write_bytes(b"")
    shop.deliver()
    assert not snapshot.exists() or snapshot.stat().st_size


def test_a_torn_entry_whose_batch_is_in_kafka_stops_the_job(shop: Shop) -> None:
    shop.deliver()
    begun = shop.newest("offsets")
    for name in (f"commits/{begun}", f"commits/.{begun}.crc", f"offsets/{begun}", f"offsets/.{begun}.crc"):
        (shop.checkpoint / name).unlink(missing_ok=True)
    finished = shop.newest("offsets")
    (shop.checkpoint / f"offsets/{finished}").write_bytes(b"")
    with pytest.raises(CheckpointMismatchError, match=f"offsets/{finished} is torn"):
        shop.job().start()


def test_a_clock_that_stepped_back_stops_the_batch_and_the_job_goes_on_when_it_is_right(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.deliver()
    begun, committed = shop.newest("offsets"), shop.newest("commits")
    for name in (f"offsets/{begun}", f"offsets/.{begun}.crc", f"commits/.{committed}.crc"):
        (shop.checkpoint / name).unlink(missing_ok=True)
    commit = shop.checkpoint / f"commits/{committed}"
    right = commit.read_bytes()
    ahead = int(time.time() * 1000) + 3_600_000  # as if the clock had stepped back by an hour since
    commit.write_bytes(b'v1\n{"nextBatchWatermarkMs":%d}' % ahead)
    with pytest.raises(CheckpointMismatchError, match="clock is"):
        shop.job().start()
    monkeypatch.setattr(takeover, "refuse_slow_clock", lambda *_: None)  # it steps back after the start
    shop.send()
    with pytest.raises(JobStoppedError, match="The clock stepped back"):
        shop.run_until_it_stops()
    assert shop.newest("offsets") == committed + 1
    assert shop.delivered() == shop.sent[:1]
    monkeypatch.undo()
    commit.write_bytes(right)
    shop.deliver()


def dated_ahead(shop: Shop, batch: int) -> None:
    """As if the clock had been four days ahead when the batch was begun."""
    entry, checksum = shop.checkpoint / f"offsets/{batch}", shop.checkpoint / f"offsets/.{batch}.crc"
    ahead = int(time.time() * 1000) + 4 * 86_400_000
    entry.write_text(re.sub(r'"batchTimestampMs":\d+', f'"batchTimestampMs":{ahead}', entry.read_text()))
    checksum.unlink(missing_ok=True)


def test_a_batch_dated_ahead_that_nobody_evaluated_is_given_up_at_once(shop: Shop) -> None:
    shop.deliver()
    begun = shop.newest("offsets")
    assert begun == shop.newest("commits") + 1, "a stop lets the next batch be begun"
    dated_ahead(shop, begun)
    shop.deliver()


@pytest.fixture
def small_disk(shop: Shop) -> Iterator[Path]:
    """The checkpoint folder on a disk of its own."""
    if os.getuid():
        pytest.skip("mounting a small disk needs root")
    shop.checkpoint.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=400k", "none", shop.checkpoint], check=False).returncode:
        pytest.skip("this machine lets nobody mount")
    yield shop.checkpoint
    subprocess.run(["umount", "-l", shop.checkpoint], check=True)


@contextlib.contextmanager
def read_only(folder: Path) -> Iterator[None]:
    # a mount of its own: one that somebody still writes to, as Spark may after a full disk, cannot be made read-only
    subprocess.run(["mount", "-o", "bind,ro", folder, folder], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


def test_a_full_disk_stops_the_job_and_with_room_it_goes_on(shop: Shop, small_disk: Path) -> None:
    shop.deliver()
    filling = small_disk / "filling"

    def fill() -> None:
        with contextlib.suppress(OSError), filling.open("wb", buffering=0) as file:
            while True:
                file.write(bytes(1024))

    with pytest.raises(JobFailedError, match=r"disk is full.*Make room") as stop:
        shop.run_until_it_stops(fill)
    assert stop.value.retriable
    filling.unlink()
    shop.deliver()
    with read_only(small_disk), pytest.raises(JobStoppedError, match="may not write to its files"):
        shop.job().start()


@pytest.mark.parametrize(("number", "spark_is_there"), [(signal.SIGTERM, False), (signal.SIGINT, True)])
def test_a_signal_while_it_starts_ends_it_at_once(place: Place, number: int, *, spark_is_there: bool) -> None:
    checkpoint = place.folder / "checkpoint"
    environment = {**os.environ, "CHECKBACK_KAFKA__BOOTSTRAP_SERVERS": place.bootstrap_servers}
    environment |= {"CHECKBACK_KAFKA__TOPIC_PREFIX": place.topics.prefix}
    environment |= {"CHECKBACK_JOB__CHECKPOINT": str(checkpoint)}
    command = [sys.executable, "-m", "checkback", "run"]
    job = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert job.stdout is not None
    assert b"Starting on Spark" in job.stdout.readline()
    if spark_is_there:  # and has put a handler of its own in the place of ours
        wait_until(lambda: checkpoint.exists() and any(checkpoint.iterdir()), "a file of the checkpoint")
    job.send_signal(number)
    _, errors = job.communicate(timeout=30)
    assert job.returncode == 0
    assert b"Traceback" not in errors
    assert b"ERROR" not in errors
    assert b'"level"' not in errors
