"""The local Kafka: it ends with whoever started it, keeps what it is told to keep, and says why it cannot start."""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from kafka import KafkaProducer

from checkback.exceptions import BrokerStartError
from checkback.local import LocalKafka, supervisor
from checkback.operations.topics import TopicAdministration
from tests.place import wait_until

ROOT = Path(__file__).parents[2]
SLEEP = [sys.executable, "-c", "import sys; sys.stdin.read(); import signal; signal.pause()"]
STARTER = """
from checkback.local import LocalKafka
kafka = LocalKafka(heap_megabytes=256).start()
print(kafka.pid, kafka.log_file.parent, flush=True)
input()
"""


def gone(process: psutil.Process) -> bool:
    return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE


@contextmanager
def guarded(remove: str, *command: str) -> Iterator[subprocess.Popen[bytes]]:
    """A supervisor with a small program in the broker's place."""
    with subprocess.Popen([sys.executable, supervisor.__file__, remove, *command], stdin=subprocess.PIPE) as process:
        try:
            yield process
        finally:
            process.kill()


def program_of(process: subprocess.Popen[bytes]) -> psutil.Process:
    children: list[psutil.Process] = []

    def started() -> bool:
        children[:] = psutil.Process(process.pid).children()
        # before exec the child still looks like the supervisor itself
        return bool(children) and supervisor.__file__ not in children[0].cmdline()

    wait_until(started, "the guarded program")
    return children[0]


class TestGuard:
    def test_it_ends_the_program_and_removes_the_folder_when_the_starter_is_gone(self, tmp_path: Path) -> None:
        folder = tmp_path / "folder"
        folder.mkdir()
        (folder / "file").touch()
        with guarded(str(folder), *SLEEP) as process:
            program = program_of(process)
            assert process.stdin is not None
            process.stdin.close()  # what the kernel does at the starter's death
            process.wait(20)
            assert gone(program)
        assert not folder.exists()

    def test_it_leaves_the_folder_it_is_not_told_to_remove(self, tmp_path: Path) -> None:
        with guarded("", *SLEEP) as process:
            program = program_of(process)
            process.send_signal(signal.SIGTERM)
            process.wait(supervisor.GRACE_SECONDS / 2)  # the grace is for programs that do not end
            assert gone(program)
        assert tmp_path.exists()

    def test_its_status_is_the_programs(self) -> None:
        with guarded("", sys.executable, "-c", "raise SystemExit(7)") as process:
            assert process.wait(20) == 7

    @pytest.mark.skipif(sys.platform != "linux", reason="the kernel's part in it is Linux's")
    def test_the_program_ends_though_the_guard_is_killed(self) -> None:
        with guarded("", *SLEEP) as process:
            program = program_of(process)
            process.kill()
            process.wait(20)
            wait_until(lambda: gone(program), "the end of the program")


def test_a_killed_starter_leaves_no_broker_and_no_folder() -> None:
    command = [sys.executable, "-c", STARTER]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as starter:
        try:
            assert starter.stdout is not None
            said = starter.stdout.readline().split()
            the_guard, folder = psutil.Process(int(said[0])), Path(said[1])
            [broker] = the_guard.children()
            assert folder.is_dir()
            assert "kafka.Kafka" in broker.cmdline()
        finally:
            starter.kill()
    wait_until(lambda: gone(broker) and gone(the_guard) and not folder.exists(), "the broker's end")


def test_the_child_of_a_fork_does_not_stop_its_parents_broker(tmp_path: Path) -> None:
    kafka = LocalKafka()
    kafka._folder = tmp_path / "folder"
    kafka._folder.mkdir()
    child = os.fork()
    if child == 0:  # this is a copy of pytest
        try:
            kafka.stop()
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert kafka._folder.exists()


def test_a_data_folder_survives_a_crash_and_a_restart(tmp_path: Path) -> None:
    data = tmp_path / "data"
    first = LocalKafka(data, heap_megabytes=128).start()
    try:
        broker = psutil.Process(first.pid).children()[0]
        with TopicAdministration(first.bootstrap_servers) as administration:
            assert administration.create_one("kept", 3)
        producer = KafkaProducer(bootstrap_servers=first.bootstrap_servers, acks="all")
        assert producer.send("kept", b"value", partition=2).get(120).offset == 0
        producer.close()
    finally:
        first.kill()
    assert not first.running
    wait_until(lambda: gone(broker), "the end of the killed broker")
    with LocalKafka(data, heap_megabytes=128) as second:
        assert second.running
        with TopicAdministration(second.bootstrap_servers) as administration:
            assert administration.partitions(("kept", "other")) == {"kept": 3}
        producer = KafkaProducer(bootstrap_servers=second.bootstrap_servers, acks="all")
        assert producer.send("kept", b"value", partition=2).get(120).offset == 1
        producer.close()
        broker = psutil.Process(second.pid).children()[0]
    assert gone(broker)
    assert not second.running
    assert second.pid is None
    second.stop()  # harmless
    assert (data / "log" / "meta.properties").exists()


@pytest.mark.parametrize(("heap", "buffer"), [(128, 128), (16, 2)])
def test_a_heap_that_does_not_suffice_is_named(tmp_path: Path, heap: int, buffer: int) -> None:
    properties = {"log.cleaner.dedupe.buffer.size": str(buffer * 1024 * 1024)}
    with pytest.raises(BrokerStartError, match=r"(?s)ended by itself.*java.lang.OutOfMemoryError") as raised:
        LocalKafka(tmp_path / "data", heap_megabytes=heap, properties=properties).start()
    assert len(str(raised.value)) < 5_000


def test_a_broker_that_cannot_start_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    kafka = LocalKafka(heap_megabytes=256, properties={"authorizer.class.name": "no.such.Class"})
    with pytest.raises(BrokerStartError, match="did not start") as raised:
        kafka.start()
    assert "no.such.Class" in str(raised.value)
    assert not kafka.running
    assert list(tmp_path.iterdir()) == []


def test_a_port_that_somebody_takes_first_is_no_reason_to_give_up(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        kafka = LocalKafka(heap_megabytes=256)
        kafka._controller_port = taken.getsockname()[1]
        with kafka:
            assert kafka.running


def test_a_port_that_is_taken_is_named_at_once(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        began = time.monotonic()
        with pytest.raises(BrokerStartError, match=f"Port {port} is not available"):
            LocalKafka(tmp_path / "kafka", port=port).start()
    assert time.monotonic() - began < 5


def test_a_file_is_no_folder_for_it(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(BrokerStartError, match="file cannot be Kafka's folder: File exists"):
        LocalKafka(file).start()


def test_a_folder_that_another_kafka_uses_is_named(tmp_path: Path) -> None:
    with LocalKafka(tmp_path / "kafka") as first:
        with pytest.raises(BrokerStartError, match="Another Kafka uses"):
            LocalKafka(tmp_path / "kafka").start()
        with TopicAdministration(first.bootstrap_servers) as administration:
            assert administration.create_one("made-afterwards", 1)  # by a controller whose log is as it was
