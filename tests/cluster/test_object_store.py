"""The job with its checkpoint in S3, on a real server."""

import json
from collections.abc import Iterator

import pytest

from checkback.exceptions import CheckbackError
from checkback.testing import LocalCluster
from tests.cluster.ground import TOPIC, Ground
from torture.local_s3 import LocalS3

_AWAY_SECONDS = 20.0


class S3Ground(Ground):
    """Kafka and S3."""

    patience_seconds = 240.0

    def __init__(self, kafka: LocalCluster, s3: LocalS3) -> None:
        super().__init__(kafka)
        self.s3 = s3

    def settings(self, **options: str) -> dict[str, str]:
        return {
            "JOB__CHECKPOINT": f"{self.s3.url}/checkback/checkpoint",
            "JOB__DRIVER_MEMORY": "768m",
            "JOB__SPARK_OPTIONS": json.dumps({**self.s3.options, **options}),
        }


@pytest.fixture(scope="module")
def ground() -> Iterator[S3Ground]:
    with (
        LocalCluster([TOPIC], heap_megabytes=256) as kafka,
        LocalS3() as s3,
        pytest.MonkeyPatch.context() as patch,
    ):
        for name, value in s3.environment.items():
            patch.setenv(name, value)
        yield S3Ground(kafka, s3)


def test_a_store_that_is_away_costs_nothing_and_a_job_that_is_killed_goes_on_from_s3(ground: S3Ground) -> None:
    with ground.job() as job:
        ground.send(50)
        ground.all_came_once()
        ground.s3.kill()
        ground.send(20)
        job.run_for(_AWAY_SECONDS)
        ground.s3.start()
        ground.all_came_once()
        ground.send(20)
        job.kill()
    with ground.job():
        ground.send(20)
        ground.all_came_once()


def test_in_s3_it_gets_more_state_partitions_and_goes_on(ground: S3Ground) -> None:
    ground.gets_three_state_partitions_and_goes_on()


def test_a_key_that_the_store_does_not_know_is_named_in_one_sentence(
    ground: S3Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "a secret of nobody")
    with pytest.raises(CheckbackError, match="status 1:") as said, ground.job():
        pass
    assert "refuses the job's credentials" in str(said.value)
    assert "\tat org." not in str(said.value)
    assert "a secret of nobody" not in str(said.value)
