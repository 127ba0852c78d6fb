"""The job on Spark's own cluster, of a master and two workers, with its checkpoint in HDFS.

Each worker has ``/tmp`` and ``/dev/shm`` of its own, where we may give it one: so nothing is shared but Kafka, HDFS and
what is installed.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from checkback import Message, TransactionProducer
from checkback.exceptions import CheckbackError
from checkback.listener import HalfMessage, LocalTransactionState
from checkback.testing import LocalCluster
from checkback.testing.job_process import JobProcess
from checkback.wire.checks import CheckRequest
from torture.local_hdfs import LocalHdfs
from torture.local_spark import LocalSparkCluster

TOPIC = "orders"
_RECOVERY_SECONDS = 60.0
"""30 are promised; here all of CI runs beside it."""


class Listener:
    """Commits whatever it is asked about."""

    def execute_local_transaction(self, message: HalfMessage, arg: Any) -> LocalTransactionState:
        return LocalTransactionState.COMMIT

    def check_local_transaction(self, request: CheckRequest) -> LocalTransactionState:
        return LocalTransactionState.COMMIT


class Ground:
    """Kafka, HDFS and Spark; what was sent, and what came."""

    def __init__(self, kafka: LocalCluster, hdfs: LocalHdfs, spark: LocalSparkCluster) -> None:
        self.kafka, self.hdfs, self.spark = kafka, hdfs, spark
        self._sent = 0

    def settings(self, **options: str) -> dict[str, str]:
        small = {"spark.executor.memory": "640m", "spark.driver.host": "127.0.0.1"}
        return {
            "JOB__MASTER": self.spark.url,
            "JOB__CHECKPOINT": f"{self.hdfs.url}/checkback/checkpoint",
            "JOB__DRIVER_MEMORY": "768m",
            "JOB__SPARK_OPTIONS": json.dumps({**small, **options}),
        }

    @contextmanager
    def job(self, **options: str) -> Iterator[JobProcess]:
        with self.kafka.running_job(self.settings(**options)) as job:
            yield job

    def send(self, number: int) -> None:
        with TransactionProducer(self.kafka.bootstrap_servers, "shop", Listener()) as producer:
            for _ in range(number):
                producer.send_in_transaction(Message(TOPIC, b"%d" % self._sent, key=b"%d" % (self._sent % 7)))
                self._sent += 1

    def all_came_once(self, seconds: float = 120.0) -> None:
        found = self.kafka.wait_for(TOPIC, self._sent, seconds)
        assert sorted(int(record.value) for record in found) == list(range(self._sent))


@pytest.fixture(scope="module")
def ground() -> Iterator[Ground]:
    with (
        LocalCluster([TOPIC], heap_megabytes=256) as kafka,
        LocalHdfs() as hdfs,
        LocalSparkCluster(with_files_of_their_own=True) as spark,
    ):
        yield Ground(kafka, hdfs, spark)


def test_messages_are_delivered_and_a_worker_that_is_lost_is_done_without(ground: Ground) -> None:
    with ground.job():
        ground.send(50)
        ground.all_came_once()
        ground.spark.kill_worker(1)
        began = time.monotonic()
        ground.send(50)
        ground.all_came_once(_RECOVERY_SECONDS)
        assert time.monotonic() - began < _RECOVERY_SECONDS
    ground.spark.start_worker(1)


def test_a_job_that_is_killed_goes_on_from_hdfs_where_it_was(ground: Ground) -> None:
    with ground.job() as job:
        ground.send(20)
        job.kill()
    with ground.job():
        ground.send(20)
        ground.all_came_once()


def test_in_hdfs_it_gets_more_state_partitions_and_goes_on(ground: Ground) -> None:
    ground.send(10)
    variables = {**ground.settings(), "KAFKA__BOOTSTRAP_SERVERS": ground.kafka.bootstrap_servers}
    environment = {**os.environ, **{f"CHECKBACK_{name}": value for name, value in variables.items()}}
    command = [sys.executable, "-m", "checkback", "grow", "--state-partitions", "3"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert "has 3 state partitions now, and had 2" in done.stdout, done.stdout + done.stderr
    with ground.kafka.running_job({**ground.settings(), "JOB__STATE_PARTITIONS": "3"}):
        ground.send(10)
        ground.all_came_once()


def test_executors_without_checkback_are_named_before_anything_is_taken_over(ground: Ground) -> None:
    with pytest.raises(CheckbackError) as said, ground.job(**{"spark.pyspark.python": "/no/such/python3"}):
        pass
    assert "The executors cannot run Checkback with /no/such/python3" in str(said.value)
    assert "status 1:" in str(said.value)
