"""Real Kafka brokers on this machine: KRaft, free ports, a data folder for each. One is enough, as a rule."""

import os
import shutil
import socket
import subprocess
import tempfile
import time
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, NamedTuple, Self

from checkback.exceptions import BrokerStartError
from checkback.forking import in_child_of
from checkback.local.folders import cache_folder, locked
from checkback.local.jars import KAFKA, kafka_jars
from checkback.local.java import java_command
from checkback.local.supervised import Supervised

# The cleaner's buffer is 128 MiB by default, allocated at the start: a small heap may have no room for that.
_PROPERTIES = """\
process.roles={roles}
node.id={node}
controller.quorum.voters={voters}
listeners={listeners}
controller.listener.names=CONTROLLER
log.dirs={data}
offsets.topic.replication.factor=1
offsets.topic.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=4
group.initial.rebalance.delay.ms=0
log.cleaner.dedupe.buffer.size=16777216
"""

_TAKEN = "Address already in use"
_LOCKED = "Failed to acquire lock on file"
_RELEASE_SECONDS = 15.0
_REMOVE_SECONDS = 60.0
"""The supervisor removes the folder of a broker that had thousands of partitions before it ends."""
_OF_CLUSTER = {
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
}
"""As Kafka's own defaults are."""


class Quorum(NamedTuple):
    """Brokers that are controllers, too, and go on while more than half of them are there."""

    cluster_id: str
    ports: Mapping[int, int]
    """Where each node's controller listens."""


def new_cluster_id() -> str:
    """What Kafka calls a cluster."""
    return urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")


class LocalKafka:
    """A broker that lives as long as the ``with`` block, or until :meth:`stop`.

    It ends with the process that started it, also when that is killed. Without ``data`` the folder is a
    temporary one that goes with the broker; with it, topics survive and a later start finds them again.
    ``properties`` are added to the broker's, and override them.

    ``joins`` makes it a further broker of that one's cluster, which has to have been started: node 2, or ``node``.
    A topic whose only replica lies there has no leader while it is stopped. Where it joins a quorum, it is ``node`` of
    that, and answers when more than half of them have been started.
    """

    def __init__(
        self,
        data: Path | None = None,
        *,
        port: int = 0,
        heap_megabytes: int = 512,
        start_seconds: float = 300.0,
        properties: Mapping[str, str] | None = None,
        joins: "LocalKafka | Quorum | None" = None,
        node: int = 2,
    ) -> None:
        self._temporary = data is None
        self._folder = data
        self._port = port
        self._heap_megabytes = heap_megabytes
        self._start_seconds = start_seconds
        self._properties = dict(properties or {})
        self._first = joins if isinstance(joins, LocalKafka) else None
        self._quorum = joins if isinstance(joins, Quorum) else None
        self._node = node if joins else 1
        self._controller_port = self._quorum.ports[node] if self._quorum else 0
        self._process: Supervised | None = None
        self._starter = os.getpid()
        self._started = False

    @property
    def bootstrap_servers(self) -> str:
        """``host:port`` of the broker, for any Kafka client."""
        return f"127.0.0.1:{self._port}"

    @property
    def controller_port(self) -> int:
        """Where the controller of the cluster listens: kept over restarts, since brokers that joined look there."""
        if self._first is not None:
            return self._first.controller_port
        self._controller_port = self._controller_port or free_port()
        return self._controller_port

    @property
    def cluster_id(self) -> str:
        """Kafka's id of the cluster, once the broker has been started."""
        written = (self._data_folder() / "log" / "meta.properties").read_text(encoding="utf-8")
        return next(line for line in written.splitlines() if line.startswith("cluster.id=")).partition("=")[2]

    @property
    def log_file(self) -> Path:
        """What the broker printed."""
        return self._data_folder() / "broker.log"

    @property
    def running(self) -> bool:
        """Whether the broker runs."""
        return self._process is not None and self._process.running

    @property
    def pid(self) -> int | None:
        """Process id of the supervisor that runs the broker, None when it does not run."""
        return self._process.pid if self._process else None

    def start(self, tell: Callable[[str], object] = lambda _: None) -> Self:
        """Start the broker and return when it answers; ``tell`` hears what is being waited for.

        Raises:
            BrokerStartError: the port is taken, the folder cannot be written to, the broker ended, or it did not answer
                within ``start_seconds``.
            InstallationError: no Java or no jars.
        """
        tell("Looking for Kafka's jars; the first time they are fetched")
        class_path = os.pathsep.join(str(jar) for jar in kafka_jars())
        java = [str(java_command()), f"-Xmx{self._heap_megabytes}m", "-cp", class_path]
        if self._port:
            # a broker of ours that was killed has the port for a moment longer
            _refuse_taken(self._port, _RELEASE_SECONDS if self._started else 0)
            self._start(java, tell)
            return self
        for last in (False, False, True):
            self._port = free_port()
            try:
                self._start(java, tell)
            except BrokerStartError as error:
                # between our look and its own somebody else has taken one of the ports
                if last or _TAKEN not in str(error):
                    raise
                self._port = self._controller_port = 0
            else:
                break
        return self

    def _start(self, java: list[str], tell: Callable[[str], object]) -> None:
        folder = self._data_folder()
        tell(f"Locking {folder}; for {_RELEASE_SECONDS:.0f} s another Kafka there may end")
        with locked(folder, _RELEASE_SECONDS) as lock:  # one that was killed, whoever started it, needs a moment to end
            self._launch(java, folder, lock, tell)
        with self.log_file.open("rb") as log:  # held open: a broker that ends may remove its folder
            self._wait_until_it_answers(log, tell)
        self._started = True

    def _launch(self, java: list[str], folder: Path, lock: int, tell: Callable[[str], object]) -> None:
        properties = folder / "server.properties"
        properties.write_text(self._written_properties(folder), encoding="utf-8")
        if not (folder / "log" / "meta.properties").exists():
            tell(f"Preparing {folder}")
            self._format(java, properties)
        self._process = Supervised(
            [*java, "kafka.Kafka", str(properties)],
            self.log_file,
            remove=folder if self._temporary else None,
            pass_fds=(lock,),
        )

    def stop(self) -> None:
        """Stop the broker and wait for its end. Harmless when it does not run, and in a child of a fork."""
        if in_child_of(self._starter):
            return
        process, self._process = self._process, None
        if process is not None:
            process.stop(_REMOVE_SECONDS)
        if self._temporary and self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)  # a supervisor that was killed has left it

    def kill(self) -> None:
        """End the broker with SIGKILL, as a crash would; with a ``data`` folder it can be started again."""
        if self._process is not None:
            self._process.kill()
            self._process = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    def _data_folder(self) -> Path:
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="checkback-kafka-"))
        return self._folder

    def _written_properties(self, folder: Path) -> str:
        here = f"PLAINTEXT://127.0.0.1:{self._port}"
        voters = self._quorum.ports if self._quorum else {1: self.controller_port}
        given = _PROPERTIES.format(
            roles="broker" if self._first else "broker,controller",
            node=self._node,
            voters=",".join(f"{node}@127.0.0.1:{port}" for node, port in voters.items()),
            listeners=here if self._first else f"{here},CONTROLLER://127.0.0.1:{self.controller_port}",
            data=folder / "log",
        )
        return given + "".join(f"{name}={value}\n" for name, value in self._properties.items())

    def _format(self, java: list[str], properties: Path) -> None:
        """Write what Kafka's own tool writes. The tool, a Java of its own, runs once for each version of Kafka."""
        cluster_id = self._first.cluster_id if self._first else new_cluster_id()
        if self._quorum is not None:
            cluster_id = self._quorum.cluster_id
        features = cache_folder() / f"{KAFKA}.checkpoint"
        written = properties.with_name("log") / "bootstrap.checkpoint"
        if features.exists():
            written.parent.mkdir(exist_ok=True)
            shutil.copyfile(features, written)
            ids = f"version=1\ncluster.id={cluster_id}\nnode.id={self._node}\ndirectory.id={new_cluster_id()}\n"
            written.with_name("meta.properties").write_text(ids, encoding="utf-8")
            return
        tool = [*java, "kafka.tools.StorageTool", "format", f"--cluster-id={cluster_id}", "-c", str(properties)]
        done = subprocess.run(tool, capture_output=True, text=True, check=False)  # noqa: S603  (our own command line)
        if done.returncode:
            raise BrokerStartError(
                f"Kafka could not format {properties.parent}. It said:\n{_reasons(done.stdout + done.stderr)}"
            )
        draft = features.with_suffix(f".{uuid.uuid4().hex}")  # brokers of a cluster start at the same time
        with suppress(OSError):  # a cache that is read-only: the tool runs each time
            features.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(written, draft)
            draft.replace(features)

    def _wait_until_it_answers(self, log: BinaryIO, tell: Callable[[str], object]) -> None:
        began = time.monotonic()
        while (waited := time.monotonic() - began) < self._start_seconds:
            tell(f"Waiting for {waited:.0f} s until Kafka answers at {self.bootstrap_servers}; log: {self.log_file}")
            if not self.running:
                break
            if "Kafka Server started" in _text(log) and _listens(self._port):
                return
            time.sleep(0.05)
        ended = not self.running
        how = "ended by itself" if ended else f"did not answer within {self._start_seconds:.0f} s"
        self.stop()
        if _LOCKED in _text(log):
            raise BrokerStartError(f"Another Kafka uses {self._folder}: stop that one, or name another folder.")
        raise BrokerStartError(f"The local Kafka did not start, it {how}. It said:\n{_reasons(_text(log))}")


def _text(log: BinaryIO) -> str:
    log.seek(0)
    return log.read().decode(errors="replace")


_CAUSES = ("Caused by: ", "Exception in thread ")


def _reasons(log: str) -> str:
    """The errors, each once, with the exception under each; without any the last lines.

    A broker that gives up says much more on its way out.
    """
    lines = log.splitlines()
    errors = dict.fromkeys(
        line
        for before, line in pairwise(["", *lines])
        if " ERROR " in line or line.startswith(_CAUSES) or (" ERROR " in before and not line.startswith("["))
    )
    return "\n".join([*errors, *lines[-10:]] if errors else lines[-30:])


def free_port() -> int:
    """A port of this machine's that nobody listens at."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _refuse_taken(port: int, seconds: float) -> None:
    """Kafka's own way to say so takes seconds and a page. For ``seconds`` it is waited for."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            with socket.socket() as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as Java does: a port just left is free
                probe.bind(("127.0.0.1", port))
        except OSError as error:
            if time.monotonic() < deadline:
                time.sleep(0.05)
                continue
            raise BrokerStartError(
                f"Port {port} is not available ({error.strerror}): stop the program that uses it, a Kafka perhaps, or "
                "choose another port; 0 takes a free one."
            ) from error
        return


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


class LocalKafkaCluster:
    """Three brokers, or more, that live as long as the ``with`` block: each is a controller, too.

    With one of three killed the cluster goes on; with two it waits for one of them. ``data``, ``heap_megabytes`` (of
    each), ``start_seconds`` and ``properties`` are those of :class:`LocalKafka`.
    """

    def __init__(
        self,
        data: Path | None = None,
        *,
        brokers: int = 3,
        heap_megabytes: int = 256,
        start_seconds: float = 300.0,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        self._temporary = data is None
        self._folder = data or Path(tempfile.mkdtemp(prefix="checkback-kafka-"))
        ports: dict[int, int] = {}
        while len(ports) < brokers:
            if (port := free_port()) not in ports.values():
                ports[len(ports) + 1] = port
        quorum = Quorum(new_cluster_id(), ports)
        self.brokers = [
            LocalKafka(
                self._folder / str(node),
                heap_megabytes=heap_megabytes,
                start_seconds=start_seconds,
                properties={**_OF_CLUSTER, **(properties or {})},
                joins=quorum,
                node=node,
            )
            for node in ports
        ]

    @property
    def bootstrap_servers(self) -> str:
        """``host:port`` of each broker, for any Kafka client."""
        return ",".join(broker.bootstrap_servers for broker in self.brokers)

    def start(self) -> Self:
        """Start all brokers that do not run, and return when they answer.

        Raises:
            BrokerStartError, InstallationError: as :meth:`LocalKafka.start`; none is left running then.
        """
        stopped = [broker for broker in self.brokers if not broker.running]
        try:
            with ThreadPoolExecutor(max(1, len(stopped))) as pool:  # none answers before there is a majority
                list(pool.map(LocalKafka.start, stopped))
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """Stop all brokers, and wait for their end."""
        with ThreadPoolExecutor(len(self.brokers)) as pool:
            list(pool.map(LocalKafka.stop, self.brokers))
        if self._temporary:
            shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()
