"""What a start is doing, step by step, for the log and for people: it may take minutes on a busy machine."""

import logging
import threading
from dataclasses import replace

from status_page.facts import StepFacts
from streaming.ownership.clock import wall_ms

_LOGGER = logging.getLogger(__name__)


class StartUp:
    """Told of each step by the job's threads, asked by the page's."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._steps: list[StepFacts] = []
        self._running_ms: int | None = None
        self._over = False

    @property
    def running_ms(self) -> int | None:
        """Since when batches are begun; None: not yet."""
        return self._running_ms

    @property
    def steps(self) -> tuple[StepFacts, ...]:
        """All so far, in their order; the last one is under way unless the start is over."""
        with self._lock:
            return tuple(self._steps)

    def step(self, name: str) -> None:
        """Say what is done next; what was done before has ended. Nothing happens once the start is over."""
        if self._over or (self._steps and self._steps[-1].name == name):
            return
        time_ms = wall_ms()
        with self._lock:
            self._end(time_ms)
            self._steps.append(StepFacts(name, time_ms))
        _LOGGER.info("Start-up, after %.1f s: %s", (time_ms - self._steps[0].began_ms) / 1000, name)

    def running(self) -> None:
        """Batches are begun from now on."""
        self._running_ms = wall_ms()

    def over(self) -> None:
        """The first batch has ended. Harmless when it is said again."""
        if self._over or not self._steps:
            return
        self._over = True
        with self._lock:
            self._end(wall_ms())
        took = sum(step.seconds or 0.0 for step in self._steps)
        said = ", ".join(f"{step.name} {step.seconds or 0.0:.1f} s" for step in self._steps)
        _LOGGER.info("The first batch has ended, %.1f s after the start: %s", took, said)

    def _end(self, time_ms: int) -> None:
        if self._steps:
            last = self._steps[-1]
            self._steps[-1] = replace(last, seconds=(time_ms - last.began_ms) / 1000)
