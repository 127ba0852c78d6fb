"""A Delta table in S3, with a checkpoint on this machine."""

import json
from pathlib import Path

import pytest

from checkback.testing import LocalCluster
from tests.cluster.ground import TOPIC, Ground
from tests.place import wait_until
from tests.tables import read_delta
from torture.local_s3 import LocalS3


class _TableGround(Ground):
    """Kafka, and a table in S3."""

    def __init__(self, kafka: LocalCluster, s3: LocalS3, checkpoint: Path) -> None:
        super().__init__(kafka)
        self.s3, self.checkpoint = s3, checkpoint

    def settings(self, **options: str) -> dict[str, str]:
        return {
            "JOB__CHECKPOINT": str(self.checkpoint),
            "JOB__DRIVER_MEMORY": "768m",
            "JOB__SPARK_OPTIONS": json.dumps({**self.s3.options, **options}),
            "SINKS__RULES": json.dumps([{"topic": TOPIC, "to": ["lake"]}]),
            "SINKS__TABLES": json.dumps({"lake": {"kind": "delta", "path": f"{self.s3.url}/lake"}}),
        }


def test_rows_reach_a_delta_table_in_s3(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with LocalCluster([TOPIC], heap_megabytes=256) as kafka, LocalS3() as s3:
        for name, value in s3.environment.items():
            monkeypatch.setenv(name, value)
        ground, lake = _TableGround(kafka, s3, tmp_path / "checkpoint"), s3.folder / "objects" / s3.bucket / "lake"
        with ground.job():
            ground.send(20)
            wait_until(lambda: len(read_delta(lake)) >= 20, what="the rows in the table")
        assert sorted(int(row["value"]) for row in read_delta(lake)) == list(range(20))
        assert not [path for path in lake.rglob("*.parquet") if "_checkback_staging" in path.parts]
