"""A process of one of RocketMQ's clients that does what it is told, a line at a time.

``programs`` has one for each language, and each understands the same: ``topic NAME``, ``commit``, ``rollback``,
``answer commit|rollback|unknown`` (what its checker says from then on), ``send normal|fifo|delay|half TEXT BYTES``,
``crash``. It answers with ``OK`` or ``FAILED CODE WHY``, and says ``CHECK TEXT BYTES TAG KEYS CUSTOMER`` when it is
asked.
"""

import os
import queue
import subprocess
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.gateway.clients.installed import Client

_START_SECONDS = 60.0
_SECONDS = 30.0


class ClientError(Exception):
    """What the client said when it did not do it."""


class Driven:
    """Started by ``with``; its program's log and the client's own are in ``folder``.

    Raises:
        ClientError: it did not start; or, later, it did not do what it was told.
    """

    def __init__(
        self, client: Client, address: str, topic: str, folder: Path, environment: Mapping[str, str] | None = None
    ) -> None:
        self.client = client
        self._command = [*client.driven, address, topic]
        self._environment = {**os.environ, **client.environment(folder), **(environment or {})}
        self._folder = folder
        self.checks: list[tuple[float, str]] = []
        """When it was asked, by ``time.monotonic``, and what."""
        self._said: queue.Queue[str] = queue.Queue()
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        with (self._folder / f"{self.client.name}.log").open("a") as log:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=self._environment,
                cwd=self.client.folder,
            )
        threading.Thread(target=self._listen, args=(self._process,), daemon=True).start()
        try:
            self._answer(_START_SECONDS)
        except BaseException:
            self.kill()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.kill()

    def do(self, line: str, seconds: float = _SECONDS) -> str:
        """Have it do something; gives what it says.

        Raises:
            ClientError: it failed, or said nothing in time.
        """
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        return self._answer(seconds)

    def send(self, kind: str, text: str, size: int = 0) -> str:
        """Send a message; gives its id."""
        return self.do(f"send {kind} {text} {size or len(text)}").removeprefix("OK").strip()

    def crash(self) -> None:
        """It ends without another word."""
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write("crash\n")
        self._process.stdin.flush()
        assert self._process.wait(_SECONDS) == 9

    def asked(self, text: str) -> list[str]:
        """What it was asked about a message of this text."""
        return [said for _, said in self.checks if said.split(" ")[0] == text]

    def wait_asked(self, text: str, seconds: float, times: int = 1) -> float:
        """Wait until it was asked that often; gives when the last time was.

        Raises:
            ClientError: it was not.
        """
        until = time.monotonic() + seconds
        while len(at := [moment for moment, said in self.checks if said.split(" ")[0] == text]) < times:
            if time.monotonic() > until:
                raise ClientError(f"It was asked {len(at)} times about {text} within {seconds:g} s, not {times}.")
            time.sleep(0.05)
        return at[times - 1]

    def kill(self) -> None:
        """End it, if it still runs."""
        if self._process is None:
            return
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()

    def _listen(self, process: "subprocess.Popen[str]") -> None:
        assert process.stdout is not None
        try:
            for line in process.stdout:
                word, _, rest = line.rstrip("\n").partition(" ")
                if word == "CHECK":
                    self.checks.append((time.monotonic(), rest))
                elif word in {"READY", "OK", "FAILED"}:  # the rest is the client's own log
                    self._said.put(line.rstrip("\n"))
        except ValueError:  # closed
            pass
        self._said.put("FAILED it has ended")

    def _answer(self, seconds: float) -> str:
        try:
            said = self._said.get(timeout=seconds)
        except queue.Empty:
            raise ClientError(f"{self.client.name} said nothing within {seconds:g} s.") from None
        if said.startswith("FAILED"):
            raise ClientError(said.removeprefix("FAILED "))
        return said
