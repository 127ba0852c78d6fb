"""Spans of deliveries, with OpenTelemetry's own exporter and a collector that only listens."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

from checkback.wire.protocol import Topics
from streaming.batch.headers import Headers
from streaming.batch.record import Record
from streaming.kafka_sink import delivery_spans as module
from streaming.kafka_sink.delivery_spans import MOST, DeliverySpans

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


class Collector:
    """Takes what an exporter posts."""

    def __init__(self) -> None:
        self.received: list[ExportTraceServiceRequest] = []
        received = self.received

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                received.append(ExportTraceServiceRequest.FromString(body))
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/v1/traces"


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    made = Collector()
    serving = threading.Thread(target=made.server.serve_forever, daemon=True)
    serving.start()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter(endpoint=made.url)))
    monkeypatch.setattr(module, "_tracer", lambda: provider.get_tracer("test"))
    yield made
    provider.shutdown()
    made.server.shutdown()
    made.server.server_close()
    serving.join()


def record(traceparent: str | None, topic: str = "orders") -> Record:
    headers: Headers = [("cb-id", b"tx-1"), *([("traceparent", traceparent.encode())] if traceparent else [])]
    return Record(topic, 0, None, b"value", headers)


def test_a_delivery_is_linked_to_the_trace_of_its_message(collector: Collector) -> None:
    spans = DeliverySpans(Topics().all())
    given = [record(f"00-{TRACE}-{SPAN}-01"), record(None)]
    assert list(spans.watched(given)) == given, "what is delivered is what was given"
    assert not collector.received, "before the commit nothing is delivered"
    spans.committed()
    (span,) = (
        span for one in collector.received for of in one.resource_spans for in_ in of.scope_spans for span in in_.spans
    )
    assert span.name == "deliver orders"
    assert [(link.trace_id.hex(), link.span_id.hex()) for link in span.links] == [(TRACE, SPAN)]
    assert {one.key: one.value.string_value for one in span.attributes}["checkback.transaction.id"] == "tx-1"


@pytest.mark.parametrize(
    "given",
    [
        *(record(f"00-{TRACE}-{SPAN}-00"), record("00-short-01"), record("\x00" * 55)),
        *(record(f"00-{'0' * 32}-{SPAN}-01"), record(f"00-{TRACE}-{SPAN}-01", topic="cb.check")),
    ],
)
def test_what_is_not_sampled_or_no_trace_has_no_span(collector: Collector, given: Record) -> None:
    spans = DeliverySpans(Topics().all())
    list(spans.watched([given]))
    spans.committed()
    assert not collector.received


def test_they_are_bounded_and_an_exporter_that_fails_fails_nobody(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken() -> None:
        raise RuntimeError("no collector")

    monkeypatch.setattr(module, "_tracer", broken)
    spans = DeliverySpans(Topics().all())
    list(spans.watched([record(f"00-{TRACE}-{SPAN}-01")] * (MOST + 10)))
    spans.committed()
    assert f"Spans of {MOST} deliveries are lost" in caplog.text
