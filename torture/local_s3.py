"""A real S3 server on this machine: S3Proxy, which keeps objects as files, as a process."""

import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

from checkback.local.jars import resolved
from checkback.local.java import java_command
from checkback.local.kafka import free_port
from checkback.local.supervised import Supervised
from torture.local_spark import wait_for_server

_SERVER = "org.gaul:s3proxy:4.0.0"
"""Of a key that must be new it makes a hard link: of two who send it at once one is refused."""
_LEFT_OUT = (  # what it would keep objects elsewhere with
    "com.google.cloud:google-cloud-storage",
    "com.azure:azure-storage-blob",
    "com.azure:azure-identity",
    "com.github.openstack4j.core:openstack4j-core",
    "com.github.openstack4j.core.connectors:openstack4j-okhttp",
    "org.apache.sshd:sshd-sftp",
)
_ENDPOINT, _STYLE = "spark.hadoop.fs.s3a.endpoint", "spark.hadoop.fs.s3a.path.style.access"
_REGION = "spark.hadoop.fs.s3a.endpoint.region"


class LocalS3:
    """A server with one bucket that lives as long as the ``with`` block.

    It lets in whoever has :attr:`environment`; or ``lets_in_everybody``, and looks at no signature.
    """

    bucket = "checkback"

    def __init__(
        self, *, heap_megabytes: int = 192, start_seconds: float = 120.0, lets_in_everybody: bool = False
    ) -> None:
        self._authorization = "none" if lets_in_everybody else "aws-v2-or-v4"
        self._heap_megabytes = heap_megabytes
        self._start_seconds = start_seconds
        self.folder = Path()
        """A temporary one, for log and objects; it goes with the server."""
        self.port = free_port()
        self._running: Supervised | None = None

    @property
    def url(self) -> str:
        """``s3a://`` of the bucket."""
        return f"s3a://{self.bucket}"

    @property
    def options(self) -> dict[str, str]:
        """What Spark has to know of it."""
        return options_of(self.port)

    @property
    def environment(self) -> dict[str, str]:
        """The key of whom it lets in."""
        return {"AWS_ACCESS_KEY_ID": "checkback", "AWS_SECRET_ACCESS_KEY": "a secret of the tests"}

    @property
    def objects(self) -> Path:
        """The folder that holds the bucket's objects as files."""
        return self.folder / "objects" / self.bucket

    @property
    def pid(self) -> int | None:
        """Process id of what runs it."""
        return None if self._running is None else self._running.pid

    def start(self) -> Self:
        """Start it, also when it was killed, and return when it answers.

        Raises:
            CheckbackError: it ended, or did not answer within ``start_seconds``.
            InstallationError: no Java, or no jars.
        """
        if self.folder == Path():
            self.folder = Path(tempfile.mkdtemp(prefix="checkback-s3-"))
            self.objects.mkdir(parents=True)
        log = self.folder / "server.log"
        self._running = Supervised(self._command(), log)
        try:
            wait_for_server(self._answers, log, self._running, self._start_seconds)
        except BaseException:
            self.stop()
            raise
        return self

    def kill(self) -> None:
        """End it with SIGKILL; objects stay."""
        if self._running is not None:
            self._running.kill()
            self._running = None

    def copy(self, source: str, target: Path) -> None:
        """Copy objects, ``/folder/inner`` being what their keys begin with, into a folder of this machine."""
        begin = self.objects / source.lstrip("/")
        for one in begin.iterdir():
            place = target / begin.name
            place.mkdir(exist_ok=True)
            with suppress(FileNotFoundError):  # Spark has removed it since
                shutil.copy(one, place)

    def stop(self) -> None:
        """End it, and remove the folder."""
        if self._running is not None:
            self._running.stop()
            self._running = None
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    def _answers(self) -> bool:
        try:
            urlopen(f"http://127.0.0.1:{self.port}/", timeout=5).close()
        except HTTPError:  # it does not know us
            return True
        except (URLError, OSError):
            return False
        return True

    def _command(self) -> list[str]:
        properties = {
            "s3proxy.endpoint": f"http://127.0.0.1:{self.port}",
            "s3proxy.authorization": self._authorization,
            "s3proxy.identity": self.environment["AWS_ACCESS_KEY_ID"],
            "s3proxy.credential": self.environment["AWS_SECRET_ACCESS_KEY"],
            "jclouds.provider": "filesystem-nio2",
            "jclouds.filesystem.basedir": str(self.folder / "objects"),
        }
        file = self.folder / "s3proxy.properties"
        file.write_text("".join(f"{name}={value}\n" for name, value in properties.items()), encoding="utf-8")
        class_path = os.pathsep.join(str(jar) for jar in resolved(_SERVER, _LEFT_OUT))
        java = [str(java_command()), f"-Xmx{self._heap_megabytes}m", "-cp", class_path]
        return [*java, "org.gaul.s3proxy.Main", "--properties", str(file)]


def options_of(port: int) -> dict[str, str]:
    """What Spark has to know of a server on this machine."""
    return {_ENDPOINT: f"http://127.0.0.1:{port}", _STYLE: "true", _REGION: "us-east-1"}
