"""What the job writes to the audit topic. No Kafka."""

from collections import Counter
from typing import Any

import pytest

from checkback.wire.audit import AuditKind, AuditRecord
from checkback.wire.protocol import Topics
from streaming.brokers.client import SinkSettings
from streaming.observing import audit
from streaming.observing.audit import AuditTrail, refusals

WHY = "group shop may not send to payroll: no account names that group"


class FakeProducer:
    """Takes everything, or nothing."""

    def __init__(self) -> None:
        self.written: list[tuple[str, bytes]] = []
        self.error: object = None
        self.full = False

    def produce(self, topic: str, value: bytes, on_delivery: Any) -> None:
        if self.full:
            raise BufferError("queue full")
        self.written.append((topic, value))
        on_delivery(self.error, None)

    def poll(self, _: float) -> None:
        """Everything was heard."""

    def flush(self, _: float) -> None:
        """Likewise."""


@pytest.fixture
def kafka(monkeypatch: pytest.MonkeyPatch) -> list[FakeProducer]:
    """The producers that were made."""
    made: list[FakeProducer] = []

    def make(*_: object) -> FakeProducer:
        made.append(FakeProducer())
        return made[-1]

    monkeypatch.setattr(audit, "make_client", make)
    return made


def trail() -> AuditTrail:
    return AuditTrail(SinkSettings("kafka:9092", Topics(), 60_000))


def test_who_has_nothing_to_tell_makes_no_connection(kafka: list[FakeProducer]) -> None:
    silent = trail()
    silent.tell(refusals({}))
    silent.close()
    assert kafka == []


def test_what_was_refused_is_one_record_for_each_group_and_topic(kafka: list[FakeProducer]) -> None:
    telling = trail()
    telling.tell(refusals(Counter({("shop", "payroll", WHY): 7_000, ("till", "x", WHY): 1})))
    telling.close()
    (only,) = kafka
    assert [topic for topic, _ in only.written] == ["cb.audit"] * 2
    first = AuditRecord.parse(only.written[0][1])
    assert first == AuditRecord(AuditKind.REFUSED, "shop", WHY, group="shop", topic="payroll", number=7_000)


def test_names_that_somebody_makes_up_are_bounded() -> None:
    found = list(refusals({(f"g{number}", "t", WHY): 2 for number in range(500)}))
    assert (len(found), found[-1].number, sum(one.number for one in found)) == (101, 800, 1_000)


def test_what_cannot_be_written_is_said_once_and_ends_nothing(
    kafka: list[FakeProducer], caplog: pytest.LogCaptureFixture
) -> None:
    telling, records = trail(), list(refusals({("shop", "payroll", WHY): 1}))
    telling.tell(records)
    (only,) = kafka
    only.error = "not authorized"
    telling.tell(records)
    only.full = True
    telling.tell(records)
    assert caplog.text.count("Let the job write there.") == 1
    only.error, only.full = None, False
    telling.tell(records)
    only.error = "again"
    telling.tell(records)
    assert caplog.text.count("Let the job write there.") == 2
