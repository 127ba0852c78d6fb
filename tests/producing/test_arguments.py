"""Whatever an application hands in: a half message that the job would take, or an error of ours and nothing written."""

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest

from checkback import (
    AsyncTransactionProducer,
    ConfigurationError,
    Message,
    ProducerClosedError,
    ProtocolError,
    SigningKey,
    TransactionOptions,
    TransactionProducer,
)
from checkback.kafka.connecting import TransportName, connect
from checkback.testing import RecordingTransport
from tests.place import Place


def a(**changed: Any) -> Any:
    return Message(**{"topic": "orders", "value": b"1", **changed})


WRONG_MESSAGES: list[Any] = [
    *(
        a(topic=topic)
        for topic in (b"orders", None, 5, ["orders"], "", "..", "a b", "\ud800", "cb.half", "__consumer_offsets")
    ),
    *(a(value=value) for value in ("text", bytearray(b"1"), memoryview(b"1"), 5, None)),
    *(a(key=key) for key in ("text", bytearray(b"1"), 5)),
    *(a(partition=number) for number in (True, 1.0, "1", -1, 10**9, 10**30)),
    *(
        a(headers=headers)
        for headers in (None, 5, "ab", b"ab", {"a": b"1"}, [("a",)], [("a", b"1", 2)], [(b"a", b"1")])
    ),
    *(
        a(headers=headers)
        for headers in ([("a", None)], [("a", "1")], [("cb-id", b"1")], [("a\0", b"1")], [("\ud800", b"")])
    ),
    *("orders", None, ("orders", b"1")),
]
WRONG_OPTIONS: list[Any] = [
    *(TransactionOptions(check_immunity_ms=number) for number in (2.5, True, "2", -1)),  # type: ignore[arg-type]  # the test
    *(TransactionOptions(deliver_at_ms=number) for number in (time.time() * 1000, 10**15)),  # type: ignore[arg-type]  # the test
    *({}, 5, "later"),
]


@pytest.fixture
def recording() -> RecordingTransport:
    return RecordingTransport()


@pytest.fixture
def producer(recording: RecordingTransport) -> TransactionProducer:
    return TransactionProducer("nowhere:1", "shop", transport=recording)


@pytest.mark.parametrize("message", WRONG_MESSAGES)
def test_a_message_that_cannot_be_one(
    producer: TransactionProducer, recording: RecordingTransport, message: Any
) -> None:
    for write in (producer.send, producer.prepare, lambda wrong: producer.begin().add(wrong).prepare()):
        with pytest.raises(ProtocolError):
            write(message)
    with pytest.raises(ProtocolError):
        producer.prepare_several([a(), message])
    assert recording.transactions == []


@pytest.mark.parametrize("options", WRONG_OPTIONS)
def test_options_that_cannot_be(producer: TransactionProducer, recording: RecordingTransport, options: Any) -> None:
    with pytest.raises(ProtocolError):
        producer.send(a(), options=options)
    with pytest.raises(ProtocolError):
        producer.prepare_several([a()], options=options)
    assert recording.transactions == []


@pytest.mark.parametrize("messages", [[], None, 5, a(), {"a": 1}, "orders"], ids=repr)
def test_several_that_cannot_be(producer: TransactionProducer, recording: RecordingTransport, messages: Any) -> None:
    with pytest.raises(ProtocolError):
        producer.prepare_several(messages)
    assert recording.transactions == []


@pytest.mark.parametrize(
    "given", [list, tuple, iter, lambda pairs: (pair for pair in pairs), lambda pairs: map(list, pairs)]
)
def test_headers_are_what_they_were_however_they_are_given(
    producer: TransactionProducer, recording: RecordingTransport, given: Callable[[Any], Any]
) -> None:
    pairs = [("a", b"1"), ("a", b"2")]
    producer.send(a(headers=given(pairs)))
    producer.commit(producer.prepare_several(one for one in [a(headers=given(pairs))]))  # type: ignore[arg-type]  # the test
    assert [sorted(message.headers) for message in recording.committed] == [pairs, pairs]


@pytest.mark.parametrize("group", ["", None, 5, b"shop", "\ud800", 256 * "g", ["shop"]], ids=repr)
def test_a_group_that_cannot_be_is_refused_at_once(group: Any) -> None:
    with pytest.raises(ProtocolError):
        TransactionProducer("nowhere:1", group, transport=RecordingTransport())


@pytest.mark.parametrize("changed", [{"listener": 5}, {"topics": "cb."}, {"missing_topic": 5}], ids=repr)
def test_settings_of_a_producer_that_cannot_be(changed: Any) -> None:
    with pytest.raises(ConfigurationError):
        TransactionProducer("nowhere:1", "shop", transport=RecordingTransport(), **changed)


@pytest.mark.parametrize("name", TransportName)
def test_options_that_a_client_does_not_know(name: TransportName, place: Place) -> None:
    with pytest.raises(ConfigurationError, match=f"{name} cannot use these settings") as refused:
        connect(name, place.bootstrap_servers, 5_000, {"nonsense": 1})
    assert not refused.value.retriable


def test_a_pause_that_is_longer_than_ours(place: Place) -> None:
    options = {"reconnect.backoff.ms": 2_000}
    connect(TransportName.CONFLUENT, place.bootstrap_servers, 5_000, options).close(5)


def test_a_remark_never_keeps_an_op_from_being_written(
    producer: TransactionProducer, recording: RecordingTransport
) -> None:
    for remark in (5, None, "x" + 3_000 * "é", "\ud800"):
        producer.commit(producer.prepare(a()), remark)  # type: ignore[arg-type]  # the test
    assert len(recording.committed) == 4


@pytest.mark.parametrize("half", [None, "abc", (1, 2)], ids=repr)
def test_only_a_half_message_is_ended(producer: TransactionProducer, half: Any) -> None:
    with pytest.raises(ProtocolError):
        producer.commit(half)


def test_a_transaction_is_begun_once(producer: TransactionProducer, recording: RecordingTransport) -> None:
    transaction = producer.begin().add(a())
    with pytest.raises(ProtocolError):
        transaction.__exit__(None, None, None)
    with transaction:
        pass
    with pytest.raises(ProtocolError), transaction:
        pass
    assert len(recording.transactions) == 1


async def _send_after_close(producer: TransactionProducer) -> None:
    asynchronous = AsyncTransactionProducer(producer)
    await asynchronous.close()
    with pytest.raises(ProducerClosedError):
        await asynchronous.prepare(a())


def test_an_async_producer_that_is_closed_says_so(producer: TransactionProducer) -> None:
    asyncio.run(_send_after_close(producer))


def test_a_half_message_that_is_signed_is_not_taken_late() -> None:
    """The job would refuse its signature as too old, when the local transaction has committed."""
    key = SigningKey("shop-1", "s" * 40)
    with pytest.raises(ConfigurationError, match="half_timeout_ms is at most 120000, not 120001"):
        TransactionProducer("nowhere:1", "shop", half_timeout_ms=120_001, signing=key)
