"""A checkpoint gets other state partitions, and goes on: nothing is lost, and nothing comes twice."""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from checkback import CheckEndpoint, CheckRequest, LocalTransactionState, Message, TransactionProducer
from checkback.exceptions import CheckbackError
from checkback.listener import HalfMessage
from checkback.testing import LocalCluster

TOPIC = "orders"
JOB = {"TRANSACTIONS__TIMEOUT": "25s", "TRANSACTIONS__CHECK_INTERVAL": "5s"}


class Listener:
    """Every second transaction stays open until it is asked about; all are committed in the end."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def execute_local_transaction(self, message: HalfMessage, arg: Any) -> LocalTransactionState:
        return LocalTransactionState.UNKNOWN if arg % 2 else LocalTransactionState.COMMIT

    def check_local_transaction(self, request: CheckRequest) -> LocalTransactionState:
        self.asked.append(request.transaction_id)
        return LocalTransactionState.COMMIT


@pytest.fixture
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster([TOPIC], heap_megabytes=256) as started:
        yield started


def send(cluster: LocalCluster, listener: Listener, numbers: range) -> None:
    with TransactionProducer(cluster.bootstrap_servers, "shop", listener) as producer:
        for number in numbers:
            producer.send_in_transaction(Message(TOPIC, b"%d" % number, key=b"%d" % (number % 5)), arg=number)


def grow(cluster: LocalCluster, partitions: int, settings: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    variables = {
        "KAFKA__BOOTSTRAP_SERVERS": cluster.bootstrap_servers,
        "JOB__CHECKPOINT": str(cluster.folder / "checkpoint"),
        "JOB__DRIVER_MEMORY": "1g",
        "JOB__MASTER": "local[2]",
        **settings,
    }
    return subprocess.run(
        [sys.executable, "-m", "checkback", "grow", "--state-partitions", str(partitions)],
        env={**os.environ, **{f"CHECKBACK_{name}": value for name, value in variables.items()}},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def as_if_cut_off(checkpoint: Path, partitions: int, before: int) -> None:
    """After Spark's batch was begun, and before it had ended."""
    newest = max((checkpoint / "commits").glob("[0-9]*"), key=lambda file: int(file.name))
    for file in (newest, newest.with_name(f".{newest.name}.crc")):
        file.unlink(missing_ok=True)
    as_if_growing(checkpoint, partitions, before)


def as_if_power_was_lost(checkpoint: Path, partitions: int, before: int) -> None:
    """After Spark's batch had ended: of what it wrote some is empty."""
    newest = max(int(file.name) for file in (checkpoint / "commits").glob("[0-9]*"))
    for number in (0, partitions - 1):
        state = checkpoint / "state" / "0" / str(number)
        (state / f".{newest + 1}.zip.crc").unlink(missing_ok=True)
        (state / f"{newest + 1}.zip").write_bytes(b"")
    as_if_growing(checkpoint, partitions, before)


def as_if_growing(checkpoint: Path, partitions: int, before: int) -> None:
    (checkpoint / f"checkback-partitions-{partitions}").unlink()
    (checkpoint / f"checkback-partitions-{before}").touch()
    (checkpoint / f"checkback-growing-{partitions}").touch()


def test_what_is_open_goes_on_in_more_partitions_also_when_that_was_cut_off(cluster: LocalCluster) -> None:
    listener = Listener()
    with CheckEndpoint(cluster.bootstrap_servers, "shop", listener):
        with cluster.running_job(JOB):
            send(cluster, listener, range(60))
            cluster.wait_for(TOPIC, 30)
        assert not listener.asked, "nothing was left open for what is tested"
        done = grow(cluster, 5, JOB)
        assert "has 5 state partitions now, and had 2" in done.stdout, done.stdout + done.stderr
        send(cluster, listener, range(60, 80))
        as_if_cut_off(cluster.folder / "checkpoint", 5, 2)
        with pytest.raises(CheckbackError, match="'checkback grow --state-partitions 5' was cut off"):
            cluster.running_job(JOB).__enter__()
        assert "type it again" in grow(cluster, 4, JOB).stderr
        given_up = grow(cluster, 2, JOB)
        assert "has 2 state partitions." in given_up.stdout, given_up.stdout + given_up.stderr
        with cluster.running_job(JOB):
            cluster.wait_for(TOPIC, 40)  # it is the old one, and goes on
        assert grow(cluster, 3, JOB).returncode == 0  # and no job does a batch before it grows again
        again = grow(cluster, 5, JOB)
        assert again.returncode == 0, again.stdout + again.stderr
        for cut_off in (as_if_cut_off, as_if_power_was_lost):
            cut_off(cluster.folder / "checkpoint", 5, 3)
            again = grow(cluster, 5, JOB)
            assert again.returncode == 0, again.stdout + again.stderr
        (cluster.folder / "checkpoint" / "checkback-growing-5").touch()  # all but the last step was done
        assert grow(cluster, 5, JOB).returncode == 0
        with cluster.running_job({**JOB, "JOB__STATE_PARTITIONS": "5"}):
            found = cluster.wait_for(TOPIC, 80)
    assert sorted(int(record.value) for record in found) == list(range(80))
