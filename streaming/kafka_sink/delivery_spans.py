"""A span for each delivery, linked to the trace that its message belongs to: where ``job.tracing`` is on.

The message's own headers, ``traceparent`` (W3C Trace Context) among them, are delivered as they were. OpenTelemetry's
own environment variables (``OTEL_EXPORTER_OTLP_ENDPOINT``, ``OTEL_SERVICE_NAME``, ...) say where spans go.
"""

import logging
import re
import time
from collections.abc import Collection, Iterable, Iterator
from functools import cache
from typing import TYPE_CHECKING

from checkback.wire import protocol
from streaming.batch.record import Record

if TYPE_CHECKING:
    from opentelemetry.trace import SpanContext, Tracer

_LOGGER = logging.getLogger(__name__)
_TRACEPARENT = "traceparent"
_FORM = re.compile(rb"[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_SAMPLED = 1
MOST = 5_000
"""Spans of one state partition of one batch. Messages of traces that were not sampled have none."""


class DeliverySpans:
    """Of one state partition of one batch. What goes wrong here goes wrong for nobody else."""

    def __init__(self, own_topics: Collection[str]) -> None:
        self._own_topics = own_topics
        self._delivered: list[tuple[str, str, int, int]] = []
        self._began_ns = time.time_ns()

    def watched(self, records: Iterable[Record]) -> Iterator[Record]:
        """The same records; those that belong to a trace are remembered."""
        for record in records:
            if record.topic not in self._own_topics and len(self._delivered) < MOST:
                self._remember(record)
            yield record

    def committed(self) -> None:
        """They are delivered: end their spans."""
        try:
            tracer = _tracer()
            for topic, transaction_id, trace, span in self._delivered:
                self._span(tracer, topic, transaction_id, _context(trace, span))
        except Exception as error:  # noqa: BLE001  (an exporter's, of any kind: what is delivered is delivered)
            _LOGGER.warning("Spans of %d deliveries are lost: %r", len(self._delivered), error)

    def _remember(self, record: Record) -> None:
        for name, value in record.headers:
            if name == _TRACEPARENT and value is not None:
                found = _FORM.fullmatch(value)
                if found and int(found[3], 16) & _SAMPLED and int(found[1], 16) and int(found[2], 16):
                    ids = (value.decode() for header, value in record.headers if header == protocol.ID and value)
                    self._delivered.append((record.topic, next(ids, ""), int(found[1], 16), int(found[2], 16)))
                return

    def _span(self, tracer: "Tracer", topic: str, transaction_id: str, context: "SpanContext") -> None:
        from opentelemetry.trace import Link, SpanKind  # noqa: PLC0415  (an extra: job.tracing)

        span = tracer.start_span(
            f"deliver {topic}",
            kind=SpanKind.PRODUCER,
            links=[Link(context)],
            start_time=self._began_ns,
            attributes={
                "messaging.system": "kafka",
                "messaging.operation.name": "deliver",
                "messaging.destination.name": topic,
                "checkback.transaction.id": transaction_id,
            },
        )
        span.end()


def _context(trace: int, span: int) -> "SpanContext":
    from opentelemetry.trace import SpanContext, TraceFlags  # noqa: PLC0415  (an extra: job.tracing)

    return SpanContext(trace, span, is_remote=True, trace_flags=TraceFlags(_SAMPLED))


@cache
def _tracer() -> "Tracer":
    """One for each worker process; it sends spans in the background."""
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415  (an extra)
    from opentelemetry.sdk.resources import Resource  # noqa: PLC0415  (likewise)
    from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415  (likewise)
    from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415  (likewise)

    provider = TracerProvider(resource=Resource.create({"service.name": "checkback-job"}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(), schedule_delay_millis=1_000))
    return provider.get_tracer("checkback")
