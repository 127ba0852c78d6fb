"""The job on Spark's own cluster, of a master and two workers, with its checkpoint in HDFS.

Each worker has ``/tmp`` and ``/dev/shm`` of its own, where we may give it one: so nothing is shared but Kafka, HDFS and
what is installed.
"""

import json
import time
from collections.abc import Iterator

import pytest

from checkback.exceptions import CheckbackError
from checkback.testing import LocalCluster
from tests.cluster.ground import TOPIC, Ground
from torture.local_hdfs import LocalHdfs
from torture.local_spark import LocalSparkCluster

_RECOVERY_SECONDS = 60.0
"""30 are promised; here all of CI runs beside it."""
_LOST = "An executor is gone: the job has 1 now, and had 2"


class ClusterGround(Ground):
    """Kafka, HDFS and Spark."""

    patience_seconds = 120.0

    def __init__(self, kafka: LocalCluster, hdfs: LocalHdfs, spark: LocalSparkCluster) -> None:
        super().__init__(kafka)
        self.hdfs, self.spark = hdfs, spark

    def settings(self, **options: str) -> dict[str, str]:
        small = {"spark.executor.memory": "640m", "spark.driver.host": "127.0.0.1"}
        return {
            "JOB__MASTER": self.spark.url,
            "JOB__CHECKPOINT": f"{self.hdfs.url}/checkback/checkpoint",
            "JOB__DRIVER_MEMORY": "768m",
            "JOB__SPARK_OPTIONS": json.dumps({**small, **options}),
        }


@pytest.fixture(scope="module")
def ground() -> Iterator[ClusterGround]:
    with (
        LocalCluster([TOPIC], heap_megabytes=256) as kafka,
        LocalHdfs() as hdfs,
        LocalSparkCluster(with_files_of_their_own=True) as spark,
    ):
        yield ClusterGround(kafka, hdfs, spark)


def test_a_job_does_without_a_lost_worker_and_once_killed_goes_on_from_hdfs(ground: ClusterGround) -> None:
    with ground.job() as job:
        ground.send(50)
        ground.all_came_once()
        ground.spark.kill_worker(1)
        began = time.monotonic()
        ground.send(50)
        ground.all_came_once(_RECOVERY_SECONDS)
        assert time.monotonic() - began < _RECOVERY_SECONDS
        job.wait_until(lambda: _LOST in job.said(), _RECOVERY_SECONDS, "said that an executor is gone")
        ground.send(20)
        job.kill()
    ground.spark.start_worker(1)
    with ground.job():
        ground.send(20)
        ground.all_came_once()


def test_in_hdfs_it_gets_more_state_partitions_and_goes_on(ground: ClusterGround) -> None:
    ground.gets_three_state_partitions_and_goes_on()


def test_executors_without_checkback_are_named_before_anything_is_taken_over(ground: ClusterGround) -> None:
    without = ground.settings(**{"spark.pyspark.python": "/no/such/python3"})
    with pytest.raises(CheckbackError) as said, ground.job(**without):
        pass
    assert "The executors cannot run Checkback with /no/such/python3" in str(said.value)
    assert "status 1:" in str(said.value)
