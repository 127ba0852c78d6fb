"""The recording transport, held against a real one; and asking as the check service does."""

from collections.abc import Callable
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from checkback import (
    CallableListener,
    CheckbackError,
    CheckRequest,
    HalfMessage,
    HalfMessageTimeoutError,
    LocalTransactionState,
    Message,
    Rollback,
    TransactionOptions,
    TransactionProducer,
    check_app,
)
from checkback.testing import RecordingTransport, ask, check_request
from checkback.wire.protocol import Action
from tests.place import Place

COMMIT, ROLLBACK, UNKNOWN = LocalTransactionState.COMMIT, LocalTransactionState.ROLLBACK, LocalTransactionState.UNKNOWN
KEYED = Message("paid", b"value", key=b"key", headers=[("h", b"1"), ("h", b"2")], partition=1)


def execute(message: HalfMessage, arg: Any) -> LocalTransactionState:
    if isinstance(arg, Exception):
        raise arg
    return LocalTransactionState(arg)


def check(request: CheckRequest) -> LocalTransactionState:
    return COMMIT if request.value == b"value" else ROLLBACK


SHOP = CallableListener(execute, check)


def trade(producer: TransactionProducer) -> None:
    """One of each kind."""
    for arg in (COMMIT, ROLLBACK, UNKNOWN, ValueError("no")):
        producer.send_in_transaction(KEYED, arg=arg)
    producer.send_in_transaction(Message("paid", None, key=b"gone"), arg=COMMIT, options=TransactionOptions(5, 3))
    producer.begin().add(KEYED).add(Message("points", b"2")).send(arg=COMMIT)
    producer.send(Message("paid", b"now"))
    with producer.transaction(Message("paid", b"block")):
        raise Rollback("sold out")
    producer.prepare(Message("paid", b"open"))


@pytest.mark.parametrize("transport", ["kafka-python", "confluent-kafka"])
def test_it_takes_what_kafka_takes(place: Place, transport: str) -> None:
    recording = RecordingTransport(2)
    with TransactionProducer("nowhere:1", "shop", SHOP, transport=recording) as producer:
        trade(producer)
    assert recording.closed
    with TransactionProducer(
        place.bootstrap_servers, "shop", SHOP, topics=place.topics, transport=transport
    ) as producer:
        trade(producer)

    halves = sorted(place.read(place.topics.half), key=lambda record: record.timestamp)
    ops = {dict(op.headers)["cb-id"]: op for op in place.read(place.topics.op)}

    def without_id(headers: Any) -> list[Any]:
        return [header for header in headers if header[0] != "cb-id"]

    by_content = sorted(str(without_id(half.headers)) for half in halves)
    assert by_content == sorted(str(without_id(one.headers)) for one in recording.transactions)
    decided = sorted(
        (dict(op.headers)["cb-action"].decode(), op.value.decode())
        for half in halves
        if (op := ops.get(dict(half.headers)["cb-id"])) is not None
    )
    written = [one for one in recording.transactions if one.action and "cb-action" not in dict(one.headers)]
    assert decided == sorted((str(one.action), one.remark) for one in written)


def test_what_is_committed_is_what_would_be_delivered() -> None:
    recording = RecordingTransport()
    with TransactionProducer("nowhere:1", "shop", SHOP, transport=recording) as producer:
        trade(producer)
    paid = [Message("paid", None, b"gone", []), KEYED, Message("points", b"2"), Message("paid", b"now", None, [])]
    assert [message[:3] for message in recording.committed] == [message[:3] for message in (KEYED, *paid)]


def test_a_test_can_have_kafka_away() -> None:
    away = RecordingTransport(refuse_halves=HalfMessageTimeoutError("away"))
    ran = []
    listener = CallableListener(lambda message, _: ran.append(message) or COMMIT, check)  # type: ignore[func-returns-value]  # on purpose, for this test
    producer = TransactionProducer("nowhere:1", "shop", listener, transport=away)
    with producer, pytest.raises(HalfMessageTimeoutError):
        producer.send_in_transaction(KEYED)
    assert (ran, away.transactions) == ([], [])


def test_of_a_process_that_died_the_check_decides() -> None:
    recording = RecordingTransport(lose_ops=True)
    with TransactionProducer("nowhere:1", "shop", SHOP, transport=recording) as producer:
        producer.send_in_transaction(KEYED, arg=COMMIT)
        producer.begin().add(KEYED).add(Message("points", b"2")).send(arg=COMMIT)
    alone, several = recording.transactions
    assert (alone.action, several.action) == (None, None)
    assert (ask(SHOP, alone), ask(SHOP, several)) == (COMMIT, ROLLBACK)


@pytest.mark.parametrize("key", [None, "secret"])
def test_a_mounted_application_is_asked(key: str | None) -> None:
    recording = RecordingTransport()
    with TransactionProducer("nowhere:1", "shop", SHOP, transport=recording) as producer:
        producer.prepare(KEYED)
    (open_one,) = recording.transactions
    app = Starlette(routes=[Mount("/checkback", check_app(SHOP, "shop", key=key))])
    assert ask(app, open_one, path="/checkback/", key=key) is COMMIT
    wrong: list[Callable[[], LocalTransactionState]] = [lambda: ask(app, open_one, path="/elsewhere", key=key)]
    if key is not None:
        wrong += [
            lambda: ask(app, open_one, path="/checkback/"),
            lambda: ask(app, open_one, path="/checkback/", key="x"),
        ]
    for question in wrong:
        with pytest.raises(CheckbackError, match=r"answered 40[14]"):
            question()


def test_the_first_decision_wins() -> None:
    recording = RecordingTransport()
    with TransactionProducer("nowhere:1", "shop", transport=recording) as producer:
        half = producer.prepare(KEYED)
        producer.rollback(half, "no")
        producer.commit(half)
    (one,) = recording.transactions
    assert (one.action, one.remark) == (Action.ROLLBACK, "no")
    assert check_request(one).half == half.half
