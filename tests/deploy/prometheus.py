"""A real Prometheus for tests: its own folder, a free port of this machine only, gone with who started it."""

import json
import shutil
import subprocess
import sys
import tempfile
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from checkback.local import supervisor
from checkback.local.kafka import free_port
from tests.place import wait_until

DEPLOY = Path(__file__).parents[2] / "deploy"


def program(name: str) -> str:
    """Where ``prometheus`` or ``promtool`` is; skips the test, with the reason, where it is not installed."""
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed here (Debian: apt-get install prometheus)")
    return found


def promtool(*arguments: str, given: bytes = b"") -> str:
    """What it says, when it is content; fails the test with what it says otherwise."""
    command = [program("promtool"), *arguments]
    done = subprocess.run(command, cwd=DEPLOY / "prometheus", input=given, capture_output=True, check=False)
    said = (done.stdout + done.stderr).decode()
    assert done.returncode == 0, said
    return said


@dataclass(frozen=True)
class Prometheus:
    """One that runs."""

    url: str

    def query(self, expression: str) -> list[dict[str, Any]]:
        """The series that it comes to now.

        Raises:
            AssertionError: Prometheus says what is wrong with it.
        """
        found: list[dict[str, Any]] = self._ask("query", query=expression)["result"]
        return found

    def firing(self) -> set[tuple[str, str]]:
        """What fires now: the alerts' names, each with the label ``job`` of what it is about."""
        return {(one["labels"]["job"], one["labels"]["alertname"]) for one in self.alerts() if one["state"] == "firing"}

    def alerts(self) -> list[dict[str, Any]]:
        """All that are pending or fire, as its API gives them."""
        found: list[dict[str, Any]] = self._ask("alerts")["alerts"]
        return found

    def expressions(self) -> dict[str, str]:
        """That of each alert, by name."""
        groups = self._ask("rules", type="alert")["groups"]
        return {rule["name"]: rule["query"] for group in groups for rule in group["rules"]}

    def _ask(self, what: str, **parameters: str) -> Any:
        address = f"{self.url}/api/v1/{what}?{urllib.parse.urlencode(parameters)}"
        try:
            with urllib.request.urlopen(address, timeout=60) as answer:  # noqa: S310  (ours)
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{parameters}: {error.read().decode()}") from None


@contextmanager
def running_prometheus(config: str, **files: str) -> Iterator[Prometheus]:
    """Start one with this configuration, and these files (by name, without their ``.yml``) beside it."""
    command = program("prometheus")
    folder = Path(tempfile.mkdtemp(prefix="checkback-prometheus-"))
    try:
        for name, text in {"prometheus": config, **files}.items():
            (folder / f"{name}.yml").write_text(text, encoding="utf-8")
        address = f"127.0.0.1:{free_port()}"
        options = (
            f"--config.file={folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={folder / 'data'}",
            f"--web.listen-address={address}",
            "--log.level=warn",
        )
        with (
            (folder / "log").open("wb") as log,
            # ends it and removes the folder even when this process is killed
            subprocess.Popen(
                [sys.executable, str(supervisor.__file__), str(folder), command, *options],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
            ) as guarded,
        ):
            wait_until(lambda: _is_ready(f"http://{address}/-/ready", guarded, folder), "Prometheus")
            yield Prometheus(f"http://{address}")
            guarded.terminate()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _is_ready(address: str, guarded: "subprocess.Popen[bytes]", folder: Path) -> bool:
    assert guarded.poll() is None, f"Prometheus did not start: {(folder / 'log').read_text()[-2_000:]}"
    try:
        with urllib.request.urlopen(address, timeout=2) as answer:  # noqa: S310  (ours)
            return bool(answer.status == 200)
    except OSError:
        return False
