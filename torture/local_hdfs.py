"""A real HDFS on this machine: Hadoop's own name node and data nodes, as processes."""

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.error import URLError
from urllib.request import urlopen

from checkback.exceptions import CheckbackError
from checkback.local.jars import resolved
from checkback.local.java import java_command
from checkback.local.kafka import free_port
from checkback.local.supervised import Supervised
from torture.local_spark import spark_home, wait_for_server

_SERVERS = "org.apache.hadoop:hadoop-client-minicluster:3.5.0"
"""Of the version of Spark's own client."""
_NAME_NODE, _DATA_NODE = (
    f"org.apache.hadoop.hdfs.server.{name}" for name in ("namenode.NameNode", "datanode.DataNode")
)
_LINE = "  <property><name>{}</name><value>{}</value></property>\n"


class LocalHdfs:
    """A name node and data nodes that live as long as the ``with`` block."""

    def __init__(self, *, data_nodes: int = 1, heap_megabytes: int = 256, start_seconds: float = 120.0) -> None:
        self._data_nodes = range(1, data_nodes + 1)
        self._heap_megabytes = heap_megabytes
        self._start_seconds = start_seconds
        self.folder = Path()
        """A temporary one, for logs and data; it goes with the servers."""
        self._port = self._pages = 0
        self._running: dict[str, Supervised] = {}

    @property
    def url(self) -> str:
        """``hdfs://host:port`` of the name node."""
        return f"hdfs://127.0.0.1:{self._port}"

    @property
    def options(self) -> dict[str, str]:
        """What Spark has to know of it beside its address: nothing."""
        return {}

    @property
    def environment(self) -> dict[str, str]:
        """The key of whom it lets in, which is everybody."""
        return {}

    @property
    def pids(self) -> dict[str, int]:
        """Process id of what runs each server, by its name: ``name``, ``data-1``."""
        return {name: one.pid for name, one in self._running.items() if one.pid is not None}

    def start(self) -> Self:
        """Start all, and return when files can be written.

        Raises:
            CheckbackError: one ended, or did not answer within ``start_seconds``.
            InstallationError: no Java, no jars or no Spark.
        """
        self.folder = Path(tempfile.mkdtemp(prefix="checkback-hdfs-"))
        self._port, self._pages = free_port(), free_port()
        try:
            self._format()
            self.start_name_node()
            for number in self._data_nodes:
                self.start_data_node(number)
        except BaseException:
            self.stop()
            raise
        return self

    def start_name_node(self) -> None:
        """Start the name node, also one that was killed, and return when it answers."""
        self._start("name", _NAME_NODE, {}, lambda: bool(self._said("NameNodeInfo")))

    def start_data_node(self, number: int = 1) -> None:
        """Start a data node, also one that was killed, and return when files can be written there."""
        own = {
            "dfs.datanode.data.dir": f"file:{self.folder}/data-{number}",
            **{f"dfs.datanode.{name}": "127.0.0.1:0" for name in ("address", "http.address", "ipc.address")},
        }
        alive = sum(name.startswith("data-") for name in self._running) + 1

        def known() -> bool:
            in_safe_mode = self._said("NameNodeInfo").get("Safemode")
            return not in_safe_mode and self._said("FSNamesystemState").get("NumLiveDataNodes") == alive

        self._start(f"data-{number}", _DATA_NODE, own, known)

    def _said(self, bean: str) -> dict[str, Any]:
        """What the name node says of itself; empty while it does not answer."""
        try:
            with urlopen(
                f"http://127.0.0.1:{self._pages}/jmx?qry=Hadoop:service=NameNode,name={bean}", timeout=5
            ) as page:
                found = json.load(page)["beans"]
        except (URLError, OSError, ValueError):
            return {}
        return dict(found[0]) if found else {}

    def kill(self, name: str) -> None:
        """End a server with SIGKILL: ``name``, ``data-1``."""
        self._running.pop(name).kill()

    def copy(self, source: str, target: Path) -> None:
        """Copy a file, or a folder with all in it, into a folder of this machine.

        Raises:
            CheckbackError: Hadoop could not.
        """
        command = self._command("copy", "org.apache.hadoop.fs.FsShell", {})
        done = subprocess.run(  # noqa: S603  (our own command line)
            [*command, "-copyToLocal", "-f", source, str(target)], capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise CheckbackError(f"Hadoop could not copy {source}. It said:\n{done.stderr[-2_000:]}")

    def stop(self) -> None:
        """End all, and remove the folder."""
        for name in list(self._running):
            self._running.pop(name).stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    def _format(self) -> None:
        command = self._command("name", _NAME_NODE, {})
        done = subprocess.run([*command, "-format", "-force"], capture_output=True, text=True, check=False)  # noqa: S603  (our own command line)
        if done.returncode:
            raise CheckbackError(f"Hadoop could not format {self.folder}. It said:\n{done.stderr[-2_000:]}")

    def _start(self, name: str, server: str, own: Mapping[str, str], ready: Callable[[], bool]) -> None:
        log = self.folder / f"{name}.log"
        one = Supervised(self._command(name, server, own), log)
        wait_for_server(ready, log, one, self._start_seconds)
        self._running[name] = one

    def _command(self, name: str, server: str, own: Mapping[str, str]) -> list[str]:
        place = self.folder / f"conf-{name}"
        place.mkdir(exist_ok=True)
        common = {
            "fs.defaultFS": self.url,
            "dfs.namenode.name.dir": f"file:{self.folder}/names",
            "dfs.namenode.http-address": f"127.0.0.1:{self._pages}",
            "dfs.replication": str(len(self._data_nodes)),
            "dfs.permissions.enabled": "false",
            "dfs.namenode.safemode.extension": "0",
            "dfs.namenode.heartbeat.recheck-interval": "5000",  # ms: a data node that is gone is known in half a minute
            "dfs.heartbeat.interval": "1s",
        }
        for file, content in (("core-site.xml", common), ("hdfs-site.xml", {**common, **own})):
            lines = "".join(_LINE.format(*item) for item in content.items())
            (place / file).write_text(f"<configuration>\n{lines}</configuration>\n", encoding="utf-8")
        # without its logging, which finds no binding; Spark's does
        jars = [str(jar) for jar in resolved(_SERVERS) if jar.name.startswith("hadoop-")]
        class_path = os.pathsep.join([str(place), *jars, os.path.join(spark_home(), "jars", "*")])  # noqa: PTH118  (Java's)
        return [str(java_command()), f"-Xmx{self._heap_megabytes}m", "-cp", class_path, server]
