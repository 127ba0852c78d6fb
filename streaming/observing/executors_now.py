"""How many executors the job has on a cluster: one that is lost is said in the log, and seen in a metric."""

import logging
from collections.abc import Callable
from typing import Any

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
        """Compare with the last time.

        Raises:
            Py4JError: Java has ended.
        """
        if self._tracker is None:
            return
        before, now = self._last, max(0, len(self._tracker.getExecutorInfos()) - 1)  # the driver is counted, too
        if now == before:
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
            _LOGGER.info("The job has %d executors on the cluster.", now)
