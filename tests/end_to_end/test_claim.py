"""A start that fails leaves the job that runs at work; one that succeeds takes over all it held."""

import contextlib
import urllib.request
from pathlib import Path
from typing import Any

import psutil
import pytest
from pyspark.sql import SparkSession

from checkback import Message, TransactionProducer
from checkback.exceptions import CheckbackError, CheckpointMismatchError
from checkback.local.kafka import free_port
from streaming import TransactionJob
from streaming.class_archive import archive_file, archive_options
from tests.end_to_end.job_process import Job
from tests.listening import addresses
from tests.place import Place, wait_until

Sections = dict[str, dict[str, Any]]


class Deliveries:
    """Sends one message after the other, and waits for each."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._values: list[bytes] = []

    def one_more(self) -> None:
        place, value = self._place, b"message %d" % len(self._values)
        self._values.append(value)
        with TransactionProducer(place.bootstrap_servers, "shop", topics=place.topics) as producer:
            producer.commit(producer.prepare(Message(place.real_topic, value)))
        wait_until(lambda: len(self.found()) >= len(self._values), value.decode())
        assert self.found() == self._values

    def found(self) -> list[bytes]:
        return sorted(record.value for record in self._place.read(self._place.real_topic))


def test_a_start_that_fails_leaves_the_job_that_runs_at_work(
    place: Place, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a file").touch()
    files = {"kind": "parquet", "path": str(tmp_path / "a file" / "table")}
    checks = {"in_job": False}
    failing: dict[str, tuple[Sections, str]] = {
        "check service": ({"checks": {"tls_ca": "/no/such/file"}}, "checks.tls_ca"),
        "table": ({"sinks": {"rules": [{"topic": "*", "to": ["files"]}], "tables": {"files": files}}}, "files"),
        "source": ({"kafka": {"source_options": {"security.protocol": "no such"}}}, "source_options"),
        "transaction": ({"job": {"sink_transaction_timeout": "10d"}}, "transaction.max.timeout.ms"),
        "topics": ({"job": {"name": "another", "checkpoint": str(tmp_path / "fresh")}}, "belongs to another"),
    }
    deliveries = Deliveries(place)
    with TransactionJob(place.settings(checks=checks), spark=spark) as job:
        deliveries.one_more()
        for what, (sections, said) in failing.items():
            settings = place.settings(**{"checks": checks, **sections})
            with pytest.raises(CheckbackError, match=said):
                TransactionJob(settings, spark=spark).start()
            assert not job.wait(2), what
        monkeypatch.setattr("streaming.job.build_session", lambda _: pytest.fail("Spark was started"))
        another = place.settings(checks=checks, job={"checkpoint": str(tmp_path / "another")})
        with pytest.raises(CheckbackError, match="belongs to another"):
            TransactionJob(another).start()
        deliveries.one_more()


def test_another_name_on_the_same_topics_is_refused_and_on_others_it_is_not(place: Place, spark: SparkSession) -> None:
    checks = {"in_job": False}
    deliveries = Deliveries(place)
    with TransactionJob(place.settings(checks=checks), spark=spark) as job:
        deliveries.one_more()
        job.wait(1)
    for folder in ("", "file://"):  # that with a scheme is read by Hadoop, as those of other machines are
        second = {"name": "second", "checkpoint": f"{folder}{place.folder}/second"}
        with pytest.raises(CheckpointMismatchError, match=r"belongs to another checkpoint.*--new-checkpoint"):
            TransactionJob(place.settings(checks=checks, job=second), spark=spark).start()
    assert not [*place.folder.glob("second/*")], "they may be used on other topics, and with other settings"
    renamed = {"name": "renamed"}
    with TransactionJob(place.settings(checks=checks, job=renamed), spark=spark) as job:
        deliveries.one_more()
        job.wait(1)


def test_a_second_job_takes_over_with_the_port_and_the_first_one_says_so(place: Place) -> None:
    port = free_port()
    first, second = (Job(place, {"CHECKBACK_HTTP__PORT": str(port)}) for _ in range(2))
    deliveries = Deliveries(place)
    try:
        first.start()
        deliveries.one_more()
        second.start()
        assert first.ends() == 1
        deliveries.one_more()
        wait_until(lambda: b"checkback_batch" in metrics(port), what="metrics of the second job")
        assert addresses(second.process) == {"127.0.0.1"}  # page, metrics, Spark: for this machine
        if archive_options():  # else none could be made here
            assert str(archive_file()) in mapped(second.process), "the classes of its Java were ready"
        assert second.terminate() == 0
    finally:
        first.kill()
        second.kill()
    said = first.said()
    assert "TakenOverError: Another job has taken over: process" in said
    assert "Traceback" not in said


def mapped(process: psutil.Process) -> set[str]:
    """The files that a process and its children have in memory."""
    found: set[str] = set()
    for one in (process, *process.children(recursive=True)):
        with contextlib.suppress(psutil.NoSuchProcess):  # nor one that has just ended
            found |= {part.path for part in one.memory_maps()}
    return found


def metrics(port: int) -> bytes:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
            return bytes(answer.read())
    except OSError:
        return b""
