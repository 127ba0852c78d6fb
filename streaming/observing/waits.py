"""How long things took, as histograms: from what batches counted by size."""

import threading
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from prometheus_client.core import HistogramMetricFamily
from prometheus_client.registry import Collector

from state import SUM, WAIT_EDGES_MS, Tallies

BATCH_BUCKETS = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
_BUCKETS = np.array([0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3_600, 21_600, 86_400, 259_200])
"""Seconds."""


class _Wait(NamedTuple):
    name: str
    said: str
    to_end: bool
    """Whether it goes on until the batch is written; else until the batch's own time."""


_WAITS = {
    "decision": _Wait(
        "checkback_decision_seconds", "From half message to decision, as the job reads them", to_end=False
    ),
    "delivery": _Wait(
        "checkback_delivery_seconds", "From decision to delivery, of messages delivered at once", to_end=True
    ),
    "timer_late": _Wait(
        "checkback_timer_late_seconds", "How late timers fired: checks, delayed deliveries", to_end=False
    ),
}


class Waits(Collector):
    """Sizes are rounded up by a fifth at most; the sums are exact."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts = {name: np.zeros(len(_BUCKETS) + 1, dtype=np.int64) for name in _WAITS}
        self._sums = dict.fromkeys(_WAITS, 0.0)

    def add(self, tallies: Tallies, seconds: float) -> None:
        """Take in what a batch has counted, which was written ``seconds`` after its own time."""
        with self._lock:
            for tally, number in tallies.items():
                name = tally.name.removesuffix("_ms")
                if name not in _WAITS:
                    continue
                more = seconds if _WAITS[name].to_end else 0.0
                if tally.size == SUM:
                    self._sums[name] += number / 1000
                else:
                    edge = WAIT_EDGES_MS[min(tally.size, len(WAIT_EDGES_MS) - 1)] / 1000
                    self._counts[name][np.searchsorted(_BUCKETS, edge + more)] += number
                    self._sums[name] += number * more

    def collect(self) -> Iterator[HistogramMetricFamily]:
        """As prometheus-client asks for."""
        with self._lock:
            for name, wait in _WAITS.items():
                bounds = [*(f"{bound:g}" if bound < 1e6 else str(bound) for bound in _BUCKETS.tolist()), "+Inf"]
                counts = np.cumsum(self._counts[name]).tolist()
                buckets = list(zip(bounds, counts, strict=True))
                yield HistogramMetricFamily(wait.name, wait.said, buckets=buckets, sum_value=self._sums[name])
