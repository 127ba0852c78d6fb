"""Brokers that take little at a time: a batch goes out, however long that takes; one that stands still is noticed."""

import os
import random
import subprocess
import time
import uuid

import pytest

from checkback.local.jars import kafka_jars
from checkback.local.java import java_command
from streaming.batch.batch import Batch
from streaming.brokers.client import SinkSettings
from streaming.kafka_sink import transaction
from streaming.kafka_sink.partition_writer import write_partition
from streaming.kafka_sink.transaction import _Stall
from tests.place import Place
from tests.streaming.outcomes import outcome, rows

STALLED_SECONDS = 8.0
CLIENT = "slow"
BYTES_A_SECOND = 200_000  # a request of 1 MB, the largest, then takes 5 s
AT_ONCE_SECONDS = 11
"""A quota is an average of that many seconds: what comes in them goes through at once."""
LARGE = 60_000


def limit_client(place: Place, bytes_a_second: int) -> None:
    """Kafka's own quota on what a client writes; confluent-kafka and kafka-python cannot set it."""
    asked = ["--alter", "--add-config", f"producer_byte_rate={bytes_a_second}", "--entity-type", "clients"]
    command = ["-cp", os.pathsep.join(map(str, kafka_jars())), "kafka.admin.ConfigCommand"]
    server = ["--bootstrap-server", place.bootstrap_servers]
    quick = ["-XX:TieredStopAtLevel=1", "-Xmx128m"]
    whole = [str(java_command()), *quick, *command, *server, *asked, "--entity-name", CLIENT]
    subprocess.run(whole, check=True, timeout=60, capture_output=True)


def test_a_slow_broker_takes_a_batch_in_longer_than_a_standstill(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transaction, "_STALLED_SECONDS", STALLED_SECONDS)
    limit_client(place, BYTES_A_SECOND)
    settings = SinkSettings(place.bootstrap_servers, place.topics, 60_000, {"client.id": CLIENT})
    count = int((AT_ONCE_SECONDS + 2 * STALLED_SECONDS) * BYTES_A_SECOND / LARGE)
    ids = [f"tx-{number}" for number in range(count)]
    large = [outcome(place.real_topic, transaction_id=one, value=random.randbytes(LARGE)) for one in ids]
    batch = Batch(uuid.uuid4().hex, 0, "hash", every_partition_writes=False)
    began = time.monotonic()
    report = write_partition(settings, batch, 0, rows(*large))
    assert time.monotonic() - began > STALLED_SECONDS, "it was not slow enough to show anything"
    assert len(place.read(place.real_topic)) == count
    assert report.written == count
    assert place.read(place.topics.half) == []


def test_it_is_a_standstill_when_nothing_goes_out_for_long() -> None:
    stall = _Stall(10.0)
    assert not stall.look(5, 100.0)
    assert not stall.look(5, 109.0)
    assert not stall.look(4, 110.0)
    assert not stall.look(4, 119.0)
    assert stall.look(4, 120.0)
    stall.begin()
    assert not stall.look(4, 130.0)
