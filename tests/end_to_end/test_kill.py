"""SIGKILL of the whole job while messages flow: nothing lost, nothing repeated, nothing leaked."""

import contextlib
import os
import random
import signal
import subprocess
import sys
import threading
import uuid
from collections import Counter
from pathlib import Path

import pytest

from checkback import TransactionProducer
from checkback.protocol import ID
from tests.place import Place, wait_until

ROUNDS = 2


class Job:
    """``checkback run`` as a process of its own, in a process group of its own."""

    def __init__(self, place: Place) -> None:
        self._log = place.folder / f"job-{uuid.uuid4().hex}.log"
        self._environment = {
            **os.environ,
            "CHECKBACK_KAFKA__BOOTSTRAP_SERVERS": place.bootstrap_servers,
            "CHECKBACK_KAFKA__TOPIC_PREFIX": place.topics.prefix,
            "CHECKBACK_JOB__CHECKPOINT": str(place.folder / "checkpoint"),
            "CHECKBACK_JOB__MASTER": "local[2]",
            "CHECKBACK_JOB__DRIVER_MEMORY": "1g",
            "CHECKBACK_JOB__MAX_OFFSETS_PER_TRIGGER": "2000",
        }
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self._log.open("ab") as log:
            command = [sys.executable, "-m", "checkback", "run"]
            self._process = subprocess.Popen(
                command, env=self._environment, stdout=log, stderr=log, start_new_session=True
            )

    def kill(self) -> None:
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):  # it has ended by itself
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None

    def terminate(self) -> int:
        assert self._process is not None
        self._process.terminate()
        return self._process.wait(40)

    def ends(self) -> int:
        """Wait for it to end by itself."""
        assert self._process is not None
        return self._process.wait(60)

    def said(self) -> str:
        return Path(self._log).read_text(encoding="utf-8", errors="replace")


class Producing(threading.Thread):
    """Sends until stopped: of ten transactions one is rolled back and one left open, eight are committed."""

    def __init__(self, place: Place) -> None:
        super().__init__()
        self._place = place
        self._stopping = threading.Event()
        self.committed: dict[bytes, bytes] = {}

    def run(self) -> None:
        place = self._place
        with TransactionProducer(place.bootstrap_servers, "shop", topics=place.topics) as producer:
            number = 0
            while not self._stopping.wait(0.02):
                number += 1
                value = b"message %d" % number
                message = producer.prepare(place.real_topic, value, b"key-%d" % (number % 7))
                if number % 10 == 0:
                    producer.rollback(message)
                elif number % 10 != 1:
                    producer.commit(message)
                    self.committed[message.transaction_id.encode()] = value

    def stop(self) -> None:
        self._stopping.set()
        self.join()


@pytest.mark.timeout(400)
def test_kill_9_neither_loses_nor_repeats(place: Place) -> None:
    chance = random.Random(7)
    job, producing = Job(place), Producing(place)
    producing.start()
    try:
        for number in range(ROUNDS):
            delivered = len(place.read(place.real_topic))
            job.start()
            wait_until(lambda before=delivered: len(place.read(place.real_topic)) > before, what=f"round {number}")
            threading.Event().wait(chance.uniform(0, 2))  # anywhere in a batch: that is what is tested
            job.kill()
        producing.stop()
        job.start()
        wait_until(lambda: len(place.read(place.real_topic)) >= len(producing.committed), what="delivery")
        assert job.terminate() == 0, job.said()
    finally:
        producing.stop()
        job.kill()
    records = place.read(place.real_topic)
    times = Counter(dict(record.headers)[ID] for record in records)
    assert [key for key, count in times.items() if count > 1] == []
    assert {dict(record.headers)[ID]: record.value for record in records} == producing.committed
