"""How many executors the job has on a cluster: one that is lost is said in the log, and seen in a metric."""

import logging
from collections.abc import Callable
from typing import Any

from py4j.protocol import Py4JError

_LOGGER = logging.getLogger(__name__)


class ExecutorsNow:
    """``tell`` gets their number whenever it has changed. Of a job on one machine there is nothing to tell."""

    def __init__(self, tell: Callable[[int], None]) -> None:
        self._tell = tell
        self._tracker: Any = None
        self._last = 0

    def of(self, tracker: Any) -> None:
        """Whom to ask: Spark's ``SparkStatusTracker``."""
        self._tracker = tracker

    def look(self) -> None:
        """Compare with the last time. Where Spark does not say, nothing is told: a figure must not end the job."""
        if self._tracker is None:
            return
        try:
            listed = len(self._tracker.getExecutorInfos())
        except (Py4JError, OSError):
            _LOGGER.debug("Spark does not say how many executors there are.", exc_info=True)
            return
        before, now = self._last, listed - 1  # the driver is counted, too
        if now < 0 or now == before:  # without the driver, Spark is being stopped
            return
        self._last = now
        self._tell(now)
        if now < before:
            _LOGGER.warning(
                "An executor is gone: the job has %d now, and had %d. Spark runs its tasks on those that are left, and "
                "starts another one where a worker has room; the master's page shows which worker was lost.",
                *(now, before),
            )
        else:
            _LOGGER.info("Executors that the job has on the cluster: %d.", now)
