"""Counters of the job, for Prometheus."""

import errno
import logging
import math
import time
from threading import Thread
from wsgiref.simple_server import WSGIServer

from prometheus_client import CollectorRegistry, Counter, Gauge, start_http_server

from checkback.exceptions import ConfigurationError
from streaming.batch import BatchReport
from streaming.fairness.held_back import Place

_LOGGER = logging.getLogger(__name__)
_WAIT_SECONDS = 60.0
"""In which whoever is taken over has ended, unless it hangs."""


class JobMetrics:
    """What the job has done since it started; served over HTTP when ``port`` is not 0."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._server: tuple[WSGIServer, Thread] | None = None
        self._free_by = 0.0
        self._registry = CollectorRegistry()
        self._events = Counter(
            "checkback_events", "What happened to half messages and ops", ["event"], registry=self._registry
        )
        self._records = Counter("checkback_records_written", "Records written to Kafka", registry=self._registry)
        self._published = Counter(
            "checkback_rows_published", "Rows written to tables", ["destination"], registry=self._registry
        )
        self._skipped = Counter(
            "checkback_partitions_skipped",
            "State partitions of a repeated batch that were in Kafka already",
            registry=self._registry,
        )
        self._held_back = Gauge(
            "checkback_partition_held_back_seconds",
            "For how long somebody's open Kafka transaction has hidden what lies behind it",
            ["topic", "partition"],
            registry=self._registry,
        )
        self._batch = Gauge("checkback_batch", "Number of the last batch", registry=self._registry)

    def start(self) -> bool:
        """Serve the metrics, from now on or already; False when the port is in use.

        Raises:
            ConfigurationError: the port cannot be had at all.
        """
        if not self._port or self._server is not None:
            return True
        try:
            self._server = start_http_server(self._port, registry=self._registry)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                self._free_by = self._free_by or time.monotonic() + _WAIT_SECONDS
                return False
            raise ConfigurationError(
                f"Port {self._port} (job.metrics_port) cannot be used: {error.strerror}."
            ) from error
        return True

    def start_when_free(self) -> None:
        """Try again, while the port is in use; says once that it takes long. Messages do not wait for it."""
        if not self.start() and time.monotonic() > self._free_by:
            self._free_by = math.inf
            _LOGGER.warning(
                "Port %d (job.metrics_port) is still in use by the job that was taken over: no metrics are served "
                "until that has ended.",
                self._port,
            )

    def stop(self) -> None:
        """Give the port back. Harmless when nothing is served."""
        server, self._server = self._server, None
        if server is not None:
            server[0].shutdown()
            server[0].server_close()
            server[1].join()

    def held_back(self, place: Place, seconds: float) -> None:
        """For how long a half or op partition has been held back; 0 when it is not."""
        self._held_back.labels(place.topic, str(place.partition)).set(seconds)

    def observe(self, report: BatchReport) -> None:
        """Add what one batch did."""
        for event, number in report.counts.items():
            self._events.labels(event).inc(number)
        self._records.inc(report.written)
        for destination, number in report.published.items():
            self._published.labels(destination).inc(number)
        self._skipped.inc(report.skipped_partitions)
        self._batch.set(report.batch)
