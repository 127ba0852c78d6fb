"""Looks at all screens of a job each second, and reads what is true before and after."""

import http.client
import os
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Mapping
from typing import NamedTuple, Self

from tests.end_to_end.screens.oracle import Moment, Oracle

_EVERY_SECONDS = 1.0
_COMMAND_SECONDS = 5.0
_ANSWER_SECONDS = 30.0
PATHS = ("/", "/groups", "/api/v1/status", "/api/v1/transactions", "/metrics")
COMMAND = "checkback status --json"


class Sample(NamedTuple):
    """What one screen said at some time between ``began`` and ``ended``."""

    screen: str
    began: float
    ended: float
    said: str | None
    """None: nobody answered."""
    started: Moment | None
    """What was true when the run that was asked was started; None: none ran."""


class Sampler:
    """Samples the screens at ``url`` whenever it is told to; the real command in a thread of its own."""

    def __init__(self, oracle: Oracle, url: str, environment: Mapping[str, str]) -> None:
        self._oracle = oracle
        self._url = url
        self._environment = {**os.environ, **environment}
        self.started: Moment | None = None
        self.samples: list[Sample] = []
        self._http = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        self._stopping = threading.Event()
        self._command = threading.Thread(target=self._ask_by_command, daemon=True)

    def __enter__(self) -> Self:
        self._command.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._command.join()
        self._oracle.look()

    def until(self, holds: Callable[[Moment], bool], seconds: float, what: str) -> None:
        """Sample once a second until something is true."""
        deadline = time.monotonic() + seconds
        while True:
            began = time.monotonic()
            for path in PATHS:
                self._oracle.look()
                self.samples.append(self._ask(path))
            moment = self._oracle.look()
            if holds(moment):
                return
            assert time.monotonic() < deadline, f"{what} did not come within {seconds} s; now {moment}"
            self._stopping.wait(max(0.0, _EVERY_SECONDS - (time.monotonic() - began)))

    def asked_of_nobody(self) -> int:
        """How often the command was run while no job ran."""
        return sum(one.screen == COMMAND and one.started is None for one in self.samples)

    def _ask(self, path: str) -> Sample:
        began, started = time.time(), self.started
        try:
            answer = self._http.open(self._url + path, timeout=_ANSWER_SECONDS)
            with answer:
                said: str | None = answer.read().decode()
        except (OSError, http.client.HTTPException):
            said = None
        return Sample(path, began, time.time(), said, started)

    def _ask_by_command(self) -> None:
        while not self._stopping.wait(_COMMAND_SECONDS):
            began, started = time.time(), self.started
            done = subprocess.run(
                [sys.executable, "-m", "checkback", "status", "--json"],
                env=self._environment,
                capture_output=True,
                text=True,
                check=False,
            )
            if self.started is started:  # else it is of neither run
                self.samples.append(Sample(COMMAND, began, time.time(), done.stdout, started))
