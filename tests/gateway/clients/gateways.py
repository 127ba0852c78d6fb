"""A gateway in a process of its own, which can be killed and started again at the same ports."""

import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from checkback.local.kafka import free_port
from tests.gateway.clients.installed import Client
from tests.gateway.scene import SECRET

KEY, KEY_SECRET = "shop-key", "k" * 40
_START_SECONDS = 60.0


def guarded(folder: Path, topic: str) -> dict[str, str]:
    """Settings by which clients need the key :data:`KEY`, and may send to one topic."""
    policy, secrets = folder / "access.toml", folder / "secrets.toml"
    policy.write_text(f'[accounts.shop]\ngroups = ["{topic}"]\ntopics = ["{topic}"]\nkeys = ["{KEY}"]\n')
    secrets.write_text(f'{KEY} = "{KEY_SECRET}"\n')
    secrets.chmod(0o600)
    return {"ACCESS__POLICY": str(policy), "ACCESS__SECRETS": str(secrets)}


class RunningGateway:
    """``checkback gateway`` with a self-signed certificate; ``settings`` by ``SECTION__KEY``, as in the environment."""

    def __init__(self, bootstrap_servers: str, folder: Path, settings: Mapping[str, str] | None = None) -> None:
        self._bootstrap_servers = bootstrap_servers
        self._folder = folder
        self.port, self.tls_port, self.check_port = free_port(), free_port(), free_port()
        self._settings = settings or {}
        self._process: subprocess.Popen[bytes] | None = None

    def address(self, client: Client) -> str:
        """Where this client finds it."""
        return f"127.0.0.1:{self.tls_port if client.tls else self.port}"

    def __enter__(self) -> Self:
        certificate, key = self._folder / "certificate.pem", self._folder / "key.pem"
        if not certificate.exists():
            command = [
                "openssl",
                "req",
                "-x509",
                "-newkey",
                "rsa:2048",
                "-nodes",
                "-days",
                "2",
                "-subj",
                "/CN=localhost",
            ]
            subprocess.run([*command, "-keyout", str(key), "-out", str(certificate)], check=True, capture_output=True)
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait(30)

    def start(self) -> None:
        """Start it, and wait until it is ready."""
        settings = {
            "KAFKA__BOOTSTRAP_SERVERS": self._bootstrap_servers,
            "GATEWAY__PORT": str(self.port),
            "GATEWAY__TLS_PORT": str(self.tls_port),
            "GATEWAY__HTTP_PORT": "0",
            "GATEWAY__CHECK_PORT": str(self.check_port),
            "GATEWAY__TLS_CERTIFICATE": str(self._folder / "certificate.pem"),
            "GATEWAY__TLS_KEY": str(self._folder / "key.pem"),
            "GATEWAY__SECRETS": f'["{SECRET}"]',
            **self._settings,
        }
        environment = {**os.environ, **{f"CHECKBACK_{name}": value for name, value in settings.items()}}
        command = [sys.executable, "-m", "checkback", "gateway"]
        with (self._folder / "gateway.log").open("ab") as log:
            self._process = subprocess.Popen(command, env=environment, stdout=log, stderr=subprocess.STDOUT)
        until = time.monotonic() + _START_SECONDS
        while not self._ready():
            if self._process.poll() is not None or time.monotonic() > until:
                raise AssertionError((self._folder / "gateway.log").read_text()[-2_000:])
            time.sleep(0.1)

    def kill(self) -> None:
        """SIGKILL."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def _ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.check_port}/ready", timeout=1) as response:
                return bool(response.status == 200)
        except (urllib.error.URLError, OSError):
            return False
