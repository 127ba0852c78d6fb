"""A producer whose group is over a limit: it refuses before anything is written, and before the local transaction."""

import asyncio
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Any

import pytest

from checkback import AsyncTransactionProducer, GroupOverLimitError, Message, TransactionOptions, TransactionProducer
from checkback.kafka.send_limits import Notice
from checkback.testing import RecordedTransaction, RecordingTransport
from tests.place import wait_until
from tests.producing.producing import Recorder, listener

ONE = Message("paid", b"value")
LATER = TransactionOptions(deliver_at_ms=4_000_000_000_000)


class Telling(RecordingTransport):
    """One whose Kafka has a notice of the group."""

    asked = ""

    def limit_notices(self, progress_topic: str, groups: Collection[str]) -> dict[str, Notice]:
        self.asked = progress_topic
        return {group: (2**62, f"group {group} has 21 of quotas.open = 20") for group in groups}


def written(producer: TransactionProducer) -> list[RecordedTransaction]:
    assert isinstance(producer._transport, RecordingTransport)
    return producer._transport.transactions


async def _in_a_block(producer: TransactionProducer) -> None:
    async with AsyncTransactionProducer(producer).transaction(ONE):
        pytest.fail("the block has run")


@pytest.fixture
def told(ran: Recorder) -> TransactionProducer:
    """A producer that has read it."""
    producer = TransactionProducer("", "shop", listener(ran), transport=Telling())
    with suppress(GroupOverLimitError):  # what is not known yet is read while it is sent
        producer.prepare(ONE)
    wait_until(lambda: bool(producer._limits._notices))
    written(producer).clear()
    return producer


SENDING: dict[str, Callable[[TransactionProducer], Any]] = {
    "in a transaction": lambda producer: producer.send_in_transaction(ONE),
    "several": lambda producer: producer.begin().add(ONE).add(ONE).send(),
    "a block": lambda producer: producer.transaction(ONE).__enter__(),
    "step by step": lambda producer: producer.prepare(ONE),
    "later": lambda producer: producer.send(ONE, options=LATER),
    "asyncio": lambda producer: asyncio.run(_in_a_block(producer)),
}


@pytest.mark.parametrize("send", SENDING.values(), ids=SENDING)
def test_nothing_is_written_and_no_local_transaction_runs(
    told: TransactionProducer, ran: Recorder, send: Callable[[TransactionProducer], Any]
) -> None:
    with pytest.raises(GroupOverLimitError, match=r"group shop has 21 of quotas\.open = 20") as found:
        send(told)
    assert found.value.retriable
    assert ran.ran == []
    assert written(told) == []


def test_what_takes_no_room_is_sent(told: TransactionProducer) -> None:
    told.send(ONE)
    assert len(written(told)) == 1
    assert isinstance(told._transport, Telling)
    assert told._transport.asked == "cb.progress"


def test_a_transport_that_reads_no_notices_sends(ran: Recorder) -> None:
    producer = TransactionProducer("", "shop", listener(ran), transport=RecordingTransport())
    for _ in range(3):
        producer.send_in_transaction(ONE)
    assert len(ran.ran) == 3
