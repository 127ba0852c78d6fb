"""The job with its checkpoint in S3, on a real server."""

import json
import os
import subprocess
import sys
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
from torture.local_s3 import LocalS3

TOPIC = "orders"
_AWAY_SECONDS = 20.0


class Listener:
    """Commits whatever it is asked about."""

    def execute_local_transaction(self, message: HalfMessage, arg: Any) -> LocalTransactionState:
        return LocalTransactionState.COMMIT

    def check_local_transaction(self, request: CheckRequest) -> LocalTransactionState:
        return LocalTransactionState.COMMIT


class Ground:
    """Kafka and S3; what was sent, and what came."""

    def __init__(self, kafka: LocalCluster, s3: LocalS3) -> None:
        self.kafka, self.s3 = kafka, s3
        self._sent = 0

    def settings(self, **options: str) -> dict[str, str]:
        return {
            "JOB__CHECKPOINT": f"{self.s3.url}/checkback/checkpoint",
            "JOB__DRIVER_MEMORY": "768m",
            "JOB__SPARK_OPTIONS": json.dumps({**self.s3.options, **options}),
        }

    @contextmanager
    def job(self, **settings: str) -> Iterator[JobProcess]:
        with self.kafka.running_job({**self.settings(), **settings}) as job:
            yield job

    def send(self, number: int) -> None:
        with TransactionProducer(self.kafka.bootstrap_servers, "shop", Listener()) as producer:
            for _ in range(number):
                producer.send_in_transaction(Message(TOPIC, b"%d" % self._sent, key=b"%d" % (self._sent % 7)))
                self._sent += 1

    def all_came_once(self, seconds: float = 240.0) -> None:
        found = self.kafka.wait_for(TOPIC, self._sent, seconds)
        assert sorted(int(record.value) for record in found) == list(range(self._sent))


@pytest.fixture(scope="module")
def ground() -> Iterator[Ground]:
    with (
        LocalCluster([TOPIC], heap_megabytes=256) as kafka,
        LocalS3() as s3,
        pytest.MonkeyPatch.context() as patch,
    ):
        for name, value in s3.environment.items():
            patch.setenv(name, value)
        yield Ground(kafka, s3)


def test_a_store_that_is_away_costs_nothing_and_a_job_that_is_killed_goes_on_from_s3(ground: Ground) -> None:
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


def test_in_s3_it_gets_more_state_partitions_and_goes_on(ground: Ground) -> None:
    ground.send(10)
    variables = {**ground.settings(), "KAFKA__BOOTSTRAP_SERVERS": ground.kafka.bootstrap_servers}
    environment = {**os.environ, **{f"CHECKBACK_{name}": value for name, value in variables.items()}}
    command = [sys.executable, "-m", "checkback", "grow", "--state-partitions", "3"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert "has 3 state partitions now, and had 2" in done.stdout, done.stdout + done.stderr
    with ground.job(JOB__STATE_PARTITIONS="3"):
        ground.send(10)
        ground.all_came_once()


def test_a_key_that_the_store_does_not_know_is_named_in_one_sentence(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "a secret of nobody")
    with pytest.raises(CheckbackError, match="status 1:") as said, ground.job():
        pass
    assert "refuses the job's credentials" in str(said.value)
    assert "\tat org." not in str(said.value)
    assert "a secret of nobody" not in str(said.value)
