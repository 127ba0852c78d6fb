"""Counters of the job, for Prometheus."""

from prometheus_client import CollectorRegistry, Counter, Gauge, start_http_server

from streaming.sink import BatchReport


class JobMetrics:
    """What the job has done since it started; served over HTTP when ``port`` is not 0."""

    def __init__(self, port: int) -> None:
        self._port = port
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
        self._batch = Gauge("checkback_batch", "Number of the last batch", registry=self._registry)

    def start(self) -> None:
        """Serve the metrics."""
        if self._port:
            start_http_server(self._port, registry=self._registry)

    def observe(self, report: BatchReport) -> None:
        """Add what one batch did."""
        for event, number in report.counts.items():
            self._events.labels(event).inc(number)
        self._records.inc(report.written)
        for destination, number in report.published.items():
            self._published.labels(destination).inc(number)
        self._skipped.inc(report.skipped_partitions)
        self._batch.set(report.batch)
