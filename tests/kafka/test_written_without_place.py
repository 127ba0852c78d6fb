"""A success without an offset names no place: no client takes it for offset 0, at which another half message lies."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaException

from checkback import HalfMessageTimeoutError
from checkback.kafka.kafka_python.transport import KafkaPythonTransport
from checkback.kafka.librdkafka.writers import HalfWriter, OpWriter
from checkback.kafka.transport import OutgoingRecord

RECORD = OutgoingRecord("cb.half", 0, None, b"value", [])


class Client:
    """librdkafka's producer, and a broker that answers a repeated request with DUPLICATE_SEQUENCE_NUMBER."""

    def __init__(self) -> None:
        self._report: Callable[[object, object], None] | None = None

    def produce(self, *record: Any, headers: object) -> None:
        self._report = record[-1]

    def poll(self, _seconds: float) -> int:
        report, self._report = self._report, None
        if report is not None:
            report(None, SimpleNamespace(offset=lambda: None, timestamp=lambda: (0, -1)))
        return 1


def test_a_half_message_without_a_place_is_not_acknowledged() -> None:
    spent: list[HalfWriter] = []
    with pytest.raises(HalfMessageTimeoutError, match="lacks the offset"):
        HalfWriter(Client(), 1_000).write(RECORD, spent.append)  # type: ignore[arg-type]  # it stands for one
    assert spent, "its client is replaced, as after any half message that was not acknowledged"


def test_nor_is_that_of_a_gateway() -> None:
    client: Any = Client()
    placed: list[Any] = []
    OpWriter(client).write_placed(RECORD, placed.append, lambda _: None)
    client.poll(0)
    assert isinstance(placed[0], KafkaException)


def test_nor_is_that_of_kafka_python(monkeypatch: pytest.MonkeyPatch) -> None:
    sent = SimpleNamespace(get=lambda **_: SimpleNamespace(offset=-1, timestamp=-1))
    monkeypatch.setattr("checkback.kafka.kafka_python.transport._send", lambda *_: sent)
    transport: Any = object.__new__(KafkaPythonTransport)
    transport._halves, transport._half_timeout_ms = SimpleNamespace(client=None), 1_000
    with pytest.raises(HalfMessageTimeoutError, match="lacks the offset"):
        transport.write_half(RECORD)
