"""The port at which a check service of its own shows its metrics."""

import socket
import threading
from collections.abc import Iterator

import httpx
import pytest
from prometheus_client import CollectorRegistry

from checkback.local.kafka import free_port
from checkers.metrics import CheckMetrics, serve


@pytest.fixture
def port() -> Iterator[int]:
    registry, port = CollectorRegistry(), free_port()
    CheckMetrics(registry, dict).answered("shop", "commit")
    stop = serve(registry, "127.0.0.1", port, ["metrics.example"])
    yield port
    stop()
    with socket.create_server(("127.0.0.1", port)):
        pass  # it is free again


@pytest.mark.parametrize(
    ("host", "status"),
    [("localhost", 200), ("127.0.0.1:9465", 200), ("metrics.example", 200), ("elsewhere.example", 421)],
)
def test_only_a_name_of_this_machine_gets_an_answer(port: int, host: str, status: int) -> None:
    """A page of another site, whose name leads here, could read the metrics."""
    answer = httpx.get(f"http://127.0.0.1:{port}/metrics", headers={"host": host})
    assert (answer.status_code, "checkback_check_answers" in answer.text) == (status, status == 200)


def test_connections_have_a_bound_and_no_threads(port: int) -> None:
    """3,500 idle ones had 3,500 threads and files."""
    httpx.get(f"http://127.0.0.1:{port}/metrics")
    threads, idle = threading.active_count(), [socket.create_connection(("127.0.0.1", port), 10) for _ in range(100)]
    assert httpx.get(f"http://127.0.0.1:{port}/metrics").status_code == 200
    assert threading.active_count() == threads
    assert any(one.recv(1) == b"" for one in idle[:1]), "the oldest has ended"
    for one in idle:
        one.close()


def test_a_port_that_is_taken_stops_nothing(port: int, caplog: pytest.LogCaptureFixture) -> None:
    serve(CollectorRegistry(), "127.0.0.1", port)()
    assert f"Port {port} (checks.http_port) cannot be had" in caplog.text
