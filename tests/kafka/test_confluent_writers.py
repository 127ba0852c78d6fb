"""A client of librdkafka that does not get over a restart of its broker is replaced, on a real Kafka."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
from confluent_kafka import KafkaError, Producer

from checkback import HalfMessageTimeoutError
from checkback.exceptions import CheckbackError
from checkback.kafka.librdkafka import transport as confluent
from checkback.kafka.librdkafka.transport import ConfluentTransport
from checkback.kafka.transport import OutgoingRecord
from checkback.local import LocalKafka
from tests.consumer.waiting import soon
from tests.place import Place

TIMEOUT_MS = 200
Report = Callable[[KafkaError | None, Any], None]


class StuckProducer:
    """librdkafka's producer after such a restart: whatever it gets, times out."""

    def __init__(self) -> None:
        self._due: list[tuple[float, Report]] = []

    def produce(self, *record: Any, headers: object) -> None:
        self._due.append((monotonic() + TIMEOUT_MS / 1000, record[-1]))

    def poll(self, seconds: float) -> int:
        due = [one for one in self._due if one[0] <= monotonic()]
        for one in due:
            self._due.remove(one)
            one[1](KafkaError(KafkaError._MSG_TIMED_OUT), None)
        return len(due)

    def flush(self, seconds: float) -> int:
        return self.poll(seconds)

    def list_topics(self, **_: object) -> None:
        """It answers."""

    def __len__(self) -> int:
        return len(self._due)


class Clients:
    """What makes clients: stuck ones first."""

    def __init__(self, stuck: int) -> None:
        self._stuck = stuck
        self.made: list[Any] = []

    def __call__(self, settings: dict[str, Any]) -> Any:
        stuck = len(self.made) < self._stuck
        self.made.append(StuckProducer() if stuck else Producer(settings))
        return self.made[-1]


@contextmanager
def transport_to(place: Place, timeout_ms: int = 20_000) -> Iterator[ConfluentTransport]:
    made = ConfluentTransport(place.bootstrap_servers, timeout_ms, {})
    try:
        yield made
    finally:
        made.close(30)


def record_of(place: Place, value: bytes) -> OutgoingRecord:
    return OutgoingRecord(place.real_topic, 0, None, value, [])


def test_halves_and_ops_go_on_with_new_clients(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    made, lost = Clients(stuck=2), list[BaseException]()
    monkeypatch.setattr(confluent, "Producer", made)
    with transport_to(place) as transport:
        with pytest.raises(HalfMessageTimeoutError):
            transport.write_half(record_of(place, b"half, timed out"))
        assert transport.write_half(record_of(place, b"half")).offset == 0
        transport.write_op(record_of(place, b"op, lost"), lost.append)
        soon(lambda: len(lost) == 1)
        transport.write_op(record_of(place, b"op"), lost.append)
    assert [record.value for record in place.read(place.real_topic)] == [b"half", b"op"]
    assert len(made.made) == 4
    assert len(lost) == 1


def test_with_kafka_away_few_clients_are_made(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    made = Clients(stuck=1_000)
    monkeypatch.setattr(confluent, "Producer", made)
    began = monotonic()
    with transport_to(place, TIMEOUT_MS) as transport:
        for number in range(5):
            transport.write_op(record_of(place, b"%d" % number), lambda _: None)
            with pytest.raises(HalfMessageTimeoutError):
                transport.write_half(record_of(place, b"%d" % number))
    assert len(made.made) <= 2 + 2 * (monotonic() - began) / (TIMEOUT_MS / 1000)


def test_what_an_old_client_still_has_is_heard_of(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(confluent, "Producer", Clients(stuck=2))
    lost: list[BaseException] = []
    with transport_to(place) as transport:
        transport.write_op(record_of(place, b"one"), lost.append)
        transport._ops.spent(transport._ops.writer)
        transport.write_op(record_of(place, b"other"), lost.append)
        soon(lambda: len(lost) == 1)
        soon(lambda: transport._ops.replaced == [])
    assert [record.value for record in place.read(place.real_topic)] == [b"other"]


def test_when_the_broker_has_lost_the_end_of_its_log_new_clients_take_over(place: Place, tmp_path: Path) -> None:
    """An idempotent producer's next record does not follow on what the broker still has: a fatal error."""
    lost: list[BaseException] = []
    with LocalKafka(tmp_path / "kafka") as kafka:  # one of its own is gone when it stops
        own = place.on(kafka.bootstrap_servers)
        own.create_topics(1)
        logs = kafka.log_file.parent / "log"
        with transport_to(own, 5_000) as transport:
            _write_some(transport, own, lost)
            kafka.stop()
            for log in logs.glob(f"{own.real_topic}-*"):
                shutil.copytree(log, tmp_path / "copies" / log.name)
            kafka.start()
            _write_some(transport, own, lost)
            kafka.kill()
            for log in logs.glob(f"{own.real_topic}-*"):
                shutil.rmtree(log)
                shutil.copytree(tmp_path / "copies" / log.name, log)
            kafka.start()
            soon(lambda: _goes_well(transport, own))
            soon(lambda: _is_taken(transport, own, lost))
            assert transport._idle.is_alive()
        values = [record.value for record in own.read(own.real_topic)]
        assert b"again" in values
        assert b"op, again" in values


def _write_some(transport: ConfluentTransport, place: Place, lost: list[BaseException]) -> None:
    for number in range(3):
        soon(lambda: _goes_well(transport, place, b"%d" % number))  # noqa: B023  (called at once)
        transport.write_op(record_of(place, b"op"), lost.append)
    transport.flush(120)


def _goes_well(transport: ConfluentTransport, place: Place, value: bytes = b"again") -> bool:
    try:
        transport.write_half(record_of(place, value))
    except CheckbackError:
        return False
    return True


def _is_taken(transport: ConfluentTransport, place: Place, lost: list[BaseException]) -> bool:
    before = len(lost)
    transport.write_op(record_of(place, b"op, again"), lost.append)
    soon(lambda: not any(len(writer.client) for writer in transport._ops.writers))  # told by those who poll
    return len(lost) == before
