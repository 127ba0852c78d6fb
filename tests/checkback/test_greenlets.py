"""A process in which gevent or eventlet has replaced threads by greenlets; the library is a fake."""

import sys
from types import SimpleNamespace

import pytest

from checkback import CheckEndpoint, ConfigurationError
from checkback.consumer import ConsumeResult, PullConsumer, PushConsumer
from checkback.greenlets import greenlet_library
from checkback.kafka.connecting import TransportName, connect
from tests.answering.endpoint import Answerer


def patched(monkeypatch: pytest.MonkeyPatch, library: str, *modules: str) -> None:
    name, function = {
        "gevent": ("gevent.monkey", "is_module_patched"),
        "eventlet": ("eventlet.patcher", "is_monkey_patched"),
    }[library]
    monkeypatch.setitem(sys.modules, name, SimpleNamespace(**{function: modules.__contains__}))


@pytest.mark.parametrize(
    ("library", "modules", "found"),
    [
        ("gevent", ["socket", "threading"], "gevent"),
        ("gevent", ["socket"], ""),
        ("eventlet", ["socket", "thread"], "eventlet"),
        ("eventlet", [], ""),
    ],
)
def test_a_library_counts_if_it_has_patched_threads(
    library: str, modules: list[str], found: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert greenlet_library() == ""
    patched(monkeypatch, library, *modules)
    assert greenlet_library() == found


def test_a_check_endpoint_among_greenlets_never_runs_on_uvloop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its loop would block the only thread there is, and start() would never return."""
    for expected in ("auto", "asyncio"):
        served = CheckEndpoint("nowhere:1", "orders", Answerer())
        served.close()
        assert served._server.config.loop == expected
        patched(monkeypatch, "gevent", "threading")


def test_confluent_kafka_is_refused_among_greenlets(monkeypatch: pytest.MonkeyPatch) -> None:
    patched(monkeypatch, "eventlet", "thread")
    with pytest.raises(ConfigurationError, match="confluent-kafka does not work in a process patched by eventlet"):
        connect(TransportName.CONFLUENT, "nowhere:1", 1_000, {})
    with pytest.raises(ConfigurationError, match="A consumer does not work in a process patched by eventlet"):
        PushConsumer("nowhere:1", "points", lambda _: ConsumeResult.SUCCESS, "orders")
    with pytest.raises(ConfigurationError, match="A pull consumer does not work in a process patched by eventlet"):
        PullConsumer("nowhere:1")
