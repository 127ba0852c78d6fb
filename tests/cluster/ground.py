"""What tests of a job on servers of its own share: what was sent, what came, and a checkpoint that grows."""

import os
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from checkback import Message, TransactionProducer
from checkback.listener import HalfMessage, LocalTransactionState
from checkback.testing import LocalCluster
from checkback.testing.job_process import JobProcess
from checkback.wire.checks import CheckRequest

TOPIC = "orders"


class _Listener:
    """Commits whatever it is asked about."""

    def execute_local_transaction(self, message: HalfMessage, arg: Any) -> LocalTransactionState:
        return LocalTransactionState.COMMIT

    def check_local_transaction(self, request: CheckRequest) -> LocalTransactionState:
        return LocalTransactionState.COMMIT


class Ground(ABC):
    """Kafka, and where the job and its checkpoint are."""

    patience_seconds: float

    def __init__(self, kafka: LocalCluster) -> None:
        self.kafka = kafka
        self._sent = 0

    @abstractmethod
    def settings(self, **options: str) -> dict[str, str]:
        """Of the job; ``options`` are Spark's."""

    @contextmanager
    def job(self, **settings: str) -> Iterator[JobProcess]:
        """With others than its usual settings where some are given."""
        with self.kafka.running_job({**self.settings(), **settings}) as job:
            yield job

    def send(self, number: int) -> None:
        with TransactionProducer(self.kafka.bootstrap_servers, "shop", _Listener()) as producer:
            for _ in range(number):
                producer.send_in_transaction(Message(TOPIC, b"%d" % self._sent, key=b"%d" % (self._sent % 7)))
                self._sent += 1

    def all_came_once(self, seconds: float | None = None) -> None:
        found = self.kafka.wait_for(TOPIC, self._sent, seconds or self.patience_seconds)
        assert sorted(int(record.value) for record in found) == list(range(self._sent))

    def gets_three_state_partitions_and_goes_on(self) -> None:
        if not self._sent:  # no test before has had a job here
            with self.job():
                self.send(1)
                self.all_came_once()
        self.send(10)
        variables = {**self.settings(), "KAFKA__BOOTSTRAP_SERVERS": self.kafka.bootstrap_servers}
        environment = {**os.environ, **{f"CHECKBACK_{name}": value for name, value in variables.items()}}
        command = [sys.executable, "-m", "checkback", "grow", "--state-partitions", "3"]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert "has 3 state partitions now, and had 2" in done.stdout, done.stdout + done.stderr
        with self.job(JOB__STATE_PARTITIONS="3"):
            self.send(10)
            self.all_came_once()
