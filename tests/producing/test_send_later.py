"""Messages for later: a half message with its own decision, and when it is to be delivered."""

import asyncio
import time
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from checkback import AsyncTransactionProducer, Message, ProtocolError, TransactionProducer
from checkback.testing import RecordingTransport

MESSAGE = Message("shop.reminders", b"pay", b"order-17")


@pytest.fixture
def recording() -> RecordingTransport:
    return RecordingTransport()


@pytest.fixture
def producer(recording: RecordingTransport) -> TransactionProducer:
    return TransactionProducer("nowhere:1", "shop", transport=recording)


def deliver_at(recording: RecordingTransport) -> int:
    (sent,) = recording.transactions
    headers = dict(sent.headers)
    assert headers["cb-action"] == b"commit"
    return int(headers["cb-deliver-at"])


@pytest.mark.parametrize(
    "at",
    [
        1_767_225_600_000,
        datetime(2026, 1, 1, tzinfo=UTC),
        datetime(2026, 1, 1, 2, tzinfo=timezone(timedelta(hours=2))),
    ],
)
def test_at_a_time(producer: TransactionProducer, recording: RecordingTransport, at: Any) -> None:
    producer.send_later(MESSAGE, at=at)
    assert deliver_at(recording) == 1_767_225_600_000


@pytest.mark.parametrize("delay", [90, 90.0, timedelta(minutes=1, seconds=30)])
def test_after_a_while(producer: TransactionProducer, recording: RecordingTransport, delay: Any) -> None:
    before = time.time_ns() // 1_000_000
    producer.send_later(MESSAGE, delay=delay)
    assert before + 90_000 <= deliver_at(recording) <= time.time_ns() // 1_000_000 + 90_000


def test_without_holding_up_a_loop(producer: TransactionProducer, recording: RecordingTransport) -> None:
    async def send() -> None:
        async with AsyncTransactionProducer(producer) as asynchronous:
            await asynchronous.send_later(MESSAGE, at=5)
            await asynchronous.send(MESSAGE)

    asyncio.run(send())
    later, now = recording.transactions
    assert [("cb-deliver-at" in dict(sent.headers)) for sent in (later, now)] == [True, False]


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"at": 5, "delay": 5},
        {"at": datetime(2026, 1, 1)},  # noqa: DTZ001  (the mistake in question)
        {"at": "tomorrow"},
        {"at": True},
        {"at": -1},
        {"at": 10**15},
        {"delay": -1},
        {"delay": True},
        {"delay": "5s"},
        {"delay": float("nan")},
        {"delay": float("inf")},
        {"delay": timedelta(seconds=-1)},
    ],
    ids=str,
)
def test_what_is_no_time_is_refused(producer: TransactionProducer, recording: RecordingTransport, given: Any) -> None:
    with pytest.raises(ProtocolError):
        producer.send_later(MESSAGE, **given)
    assert recording.transactions == []
