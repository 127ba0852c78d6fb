"""The ground of a fault run on a cluster: three brokers, HDFS or S3, and Spark's own master and workers."""

import functools
import json
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from checkback.local import LocalKafkaCluster
from torture.clock import SettableClock
from torture.local_hdfs import LocalHdfs
from torture.local_s3 import LocalS3
from torture.local_spark import LocalSparkCluster
from torture.three_brokers import ThreeBrokers

_CHECKPOINT = "/checkback/checkpoint"
_LIVES_A_MINUTE = "-XX:TieredStopAtLevel=1"
"""Java that lives for a minute: to be compiled quickly rather than well."""


@dataclass(frozen=True, kw_only=True)
class ClusterGround(ThreeBrokers):
    """Nothing is shared but Kafka, the checkpoint, and what is installed; the driver is on this machine."""

    store: LocalHdfs | LocalS3
    """Where the checkpoint lies."""
    spark: LocalSparkCluster

    def checkpoint_here(self) -> Path:
        """A copy of its offset log."""
        here = self.folder / "checkpoint"
        here.mkdir(exist_ok=True)
        self.store.copy(f"{_CHECKPOINT}/offsets", here)
        return here

    def start_servers(self) -> None:
        """All of them; none is left when one cannot be started."""
        with ExitStack() as started:
            for server in (self.kafka, self.store, self.spark):
                started.enter_context(server)
            started.pop_all()

    def close(self) -> None:
        """Stop all."""
        for server in (self.spark, self.store, self.kafka):
            server.stop()

    def settings(self) -> dict[str, str]:
        """Environment of the job and of the check service."""
        options = {
            "spark.driver.host": "127.0.0.1",
            "spark.executor.memory": "640m",
            "spark.executor.extraJavaOptions": _LIVES_A_MINUTE,
            # a machine that is gone is known to be after 15 s, as when its connections end
            "spark.network.timeout": "15s",
            "spark.network.timeoutInterval": "5s",
            "spark.executor.heartbeatInterval": "3s",
            **self.store.options,
        }
        return {
            **super().settings(),
            **self.store.environment,
            "CHECKBACK_JOB__MASTER": self.spark.url,
            "CHECKBACK_JOB__CHECKPOINT": f"{self.store.url}{_CHECKPOINT}",
            "CHECKBACK_JOB__SPARK_OPTIONS": json.dumps(options),
        }

    @functools.cached_property
    def job_environment(self) -> dict[str, str]:
        """The settings, and the clock that can be set."""
        return {**self.settings(), **self.clock.environment(), "JDK_JAVA_OPTIONS": _LIVES_A_MINUTE}


def make_cluster_ground(place: Path, clock: SettableClock, *, in_s3: bool = False) -> ClusterGround:
    """Of three brokers, a name node with two data nodes or an S3 server, and two workers of a core."""
    store = LocalS3() if in_s3 else LocalHdfs(data_nodes=2)
    kafka = LocalKafkaCluster(place / "kafka")
    spark = LocalSparkCluster(environment={"JDK_JAVA_OPTIONS": _LIVES_A_MINUTE}, with_files_of_their_own=True)
    return ClusterGround(place, kafka.brokers[0], clock, kafka=kafka, store=store, spark=spark)
