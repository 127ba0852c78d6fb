"""The producer on a real Kafka: half message, local transaction, op, in this order or not at all."""

import logging
import os
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import pytest

from checkback import (
    ConfigurationError,
    HalfMessage,
    HalfMessageError,
    HalfMessageTimeoutError,
    LocalTransactionState,
    Message,
    ProducerClosedError,
    ProtocolError,
    TransactionProducer,
)
from checkback.kafka.connecting import TransportName
from checkback.kafka.librdkafka.transport import ConfluentTransport
from checkback.producing.partition_run import PartitionRun
from checkback.wire.protocol import Action, HalfPosition, Source, half_headers, op_headers
from tests.place import HALF_PARTITIONS, Place
from tests.producing.producing import COMMIT, UNKNOWN, Recorder, listener

TOO_LARGE = 2_000_000


def half_at(place: Place, position: HalfPosition) -> Any:
    """The half message that lies at a position."""
    [half] = [half for half in place.read(place.topics.half) if (half.partition, half.offset) == position]
    return half


def only_op(place: Place, producer: TransactionProducer) -> Any:
    producer.flush()
    [op] = place.read(place.topics.op)
    return op


def test_the_half_message_is_in_kafka_before_the_local_transaction(transport: TransportName, place: Place) -> None:
    seen: list[Any] = []

    def execute(message: HalfMessage, _: Any) -> LocalTransactionState:
        seen.append(half_at(place, message.half))
        assert place.read(place.topics.op) == []
        return COMMIT

    headers = [("trace", b"\x00"), ("again", b"1"), ("again", b"")]
    with TransactionProducer(
        place.bootstrap_servers, "orders", listener(execute), topics=place.topics, transport=transport
    ) as producer:
        result = producer.send_in_transaction(Message("paid", b"value", b"key", headers=headers))
        assert result.state is COMMIT
        [half] = seen
        assert (half.partition, half.offset) == result.half
        assert (half.key, half.value) == (b"key", b"value")
        assert list(half.headers) == half_headers(result.transaction_id, "orders", "paid", headers)


def test_the_local_transaction_gets_message_and_argument(producer: TransactionProducer, ran: Recorder) -> None:
    argument = object()
    result = producer.send_in_transaction(Message("paid", b"value", b"key", headers=[("a", b"1")]), arg=argument)
    [(message, given)] = ran.ran
    assert given is argument
    assert message == HalfMessage(result.transaction_id, "paid", b"value", b"key", [("a", b"1")], result.half)


@pytest.mark.parametrize("state", LocalTransactionState)
def test_the_op_says_how_it_ended_on_the_halfs_partition(
    transport: TransportName, place: Place, state: LocalTransactionState
) -> None:
    execute = listener(lambda *_: state)
    with TransactionProducer(
        place.bootstrap_servers, "orders", execute, topics=place.topics, transport=transport
    ) as producer:
        results = [producer.send_in_transaction(Message("paid", b"%d" % number)) for number in range(70)]
        producer.flush()
        ops = {dict(op.headers)["cb-id"].decode(): op for op in place.read(place.topics.op)}
    assert {result.half.partition for result in results} == set(range(HALF_PARTITIONS))
    for result in results:
        op = ops.pop(result.transaction_id)
        assert (result.state, result.remark) == (state, "")
        assert op.partition == result.half.partition
        assert (op.key, op.value) == (None, b"")
        assert list(op.headers) == op_headers(
            *(result.transaction_id, "orders", result.half, Action(state.value), Source.PRODUCER)
        )
    assert ops == {}


def test_an_exception_makes_the_outcome_unknown(
    transport: TransportName, place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    def execute(*_: Any) -> LocalTransactionState:
        raise LookupError("the database went away")

    with TransactionProducer(
        place.bootstrap_servers, "orders", listener(execute), topics=place.topics, transport=transport
    ) as producer:
        result = producer.send_in_transaction(Message("paid", b"value"))
        op = only_op(place, producer)
    assert result.state is UNKNOWN
    assert result.remark == "execute_local_transaction raised LookupError('the database went away')"
    assert dict(op.headers)["cb-action"] == b"unknown"
    assert op.value == result.remark.encode()
    assert result.transaction_id in caplog.text


@pytest.mark.parametrize("answer", [None, "perhaps", True])
def test_an_answer_that_is_none_is_unknown(transport: TransportName, place: Place, answer: Any) -> None:
    with TransactionProducer(
        place.bootstrap_servers, "orders", listener(lambda *_: answer), topics=place.topics, transport=transport
    ) as producer:
        assert producer.send_in_transaction(Message("paid", b"value")).state is UNKNOWN


def test_the_death_of_the_process_writes_no_op(transport: TransportName, place: Place) -> None:
    class Death(BaseException):
        pass

    def execute(*_: Any) -> LocalTransactionState:
        raise Death

    with TransactionProducer(
        place.bootstrap_servers, "orders", listener(execute), topics=place.topics, transport=transport
    ) as producer:
        with pytest.raises(Death):
            producer.send_in_transaction(Message("paid", b"value"))
        producer.flush()
        assert place.read(place.topics.op) == []
        assert len(place.read(place.topics.half)) == 1


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"value": b"x" * TOO_LARGE}, HalfMessageError),
        ({"headers": [("a", b"")] * 998}, ProtocolError),
        ({"value": None}, ProtocolError),
        ({"value": "text"}, ProtocolError),
        ({"key": "text"}, ProtocolError),
        ({"headers": [("a", None)]}, ProtocolError),
        ({"headers": [("cb-id", b"mine")]}, ProtocolError),
        ({"topic": ""}, ProtocolError),
        ({"topic": "x" * 250}, ProtocolError),
        ({"topic": "two words"}, ProtocolError),
        ({"partition": -1}, ProtocolError),
    ],
    ids=lambda given: str(given)[:30],
)
def test_without_a_half_message_the_local_transaction_does_not_run(
    arguments: dict[str, Any], error: type[Exception], place: Place, producer: TransactionProducer, ran: Recorder
) -> None:
    with pytest.raises(error) as raised:
        producer.send_in_transaction(Message(**{"topic": "paid", "value": b"value", **arguments}))
    assert not isinstance(raised.value, HalfMessageTimeoutError)
    producer.flush()
    assert ran.ran == []
    assert place.read(place.topics.half) == place.read(place.topics.op) == []


def test_a_half_message_not_acknowledged_in_time_may_be_tried_again(
    producer: TransactionProducer, ran: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    transport: Any = producer._transport
    if isinstance(transport, ConfluentTransport):
        monkeypatch.setattr(transport._halves.writer, "_timeout_ms", 0)
    else:
        monkeypatch.setattr(transport, "_half_timeout_ms", 0)
        # it lies there for a second: on a busy machine the answer was there before anybody waited for it
        monkeypatch.setitem(transport._halves.client._accumulator.config, "linger_ms", 1_000)
    with pytest.raises(HalfMessageTimeoutError, match="the local transaction was not run") as raised:
        producer.send_in_transaction(Message("paid", b"value"))
    assert raised.value.retriable
    assert ran.ran == []


def test_a_half_message_that_kafka_refuses_ends_nobody_else(transport: TransportName, place: Place) -> None:
    """kafka-python by itself fails all that comes after it, for ever."""
    taken = "max_request_size" if transport is TransportName.KAFKA_PYTHON else "message.max.bytes"
    options = {taken: 5_000_000}
    with TransactionProducer(
        place.bootstrap_servers, "orders", topics=place.topics, transport=transport, kafka_options=options
    ) as producer:
        for number in range(2):
            with pytest.raises(HalfMessageError, match=r"(?i)too.?large"):
                producer.prepare(Message("paid", bytes(2_000_000)))
            for partition in range(4):
                producer.prepare(Message("paid", b"%d" % (4 * number + partition)))
    assert sorted(half.value or b"" for half in place.read(place.topics.half)) == [
        b"%d" % number for number in range(8)
    ]


def test_a_tombstone_with_its_key(place: Place, producer: TransactionProducer) -> None:
    half = half_at(place, producer.send_in_transaction(Message("paid", None, b"key")).half)
    assert (half.key, half.value) == (b"key", None)


def test_a_partition_of_the_real_topic(place: Place, producer: TransactionProducer) -> None:
    half = half_at(place, producer.send_in_transaction(Message("paid", b"value", partition=3)).half)
    assert dict(half.headers)["cb-partition"] == b"3"


@pytest.mark.parametrize("action", [Action.COMMIT, Action.ROLLBACK])
def test_the_plain_steps_need_no_listener(transport: TransportName, place: Place, action: Action) -> None:
    with TransactionProducer(place.bootstrap_servers, "orders", topics=place.topics, transport=transport) as producer:
        message = producer.prepare(Message("paid", b"value", b"key"))
        assert half_at(place, message.half).value == b"value"
        end = producer.commit if action is Action.COMMIT else producer.rollback
        end(message, "by hand: größe")
        op = only_op(place, producer)
    assert list(op.headers) == op_headers(message.transaction_id, "orders", message.half, action, Source.PRODUCER)
    assert (op.partition, op.value) == (message.half.partition, "by hand: größe".encode())


def test_the_composed_step_needs_a_listener(transport: TransportName, place: Place) -> None:
    with TransactionProducer(place.bootstrap_servers, "orders", topics=place.topics, transport=transport) as producer:
        with pytest.raises(ConfigurationError, match="needs a listener"):
            producer.send_in_transaction(Message("paid", b"value"))
        assert place.read(place.topics.half) == []


def test_an_op_that_cannot_be_written_is_left_to_the_check(
    place: Place, producer: TransactionProducer, caplog: pytest.LogCaptureFixture
) -> None:
    message = producer.prepare(Message("paid", b"value"))
    with caplog.at_level(logging.WARNING, "checkback"):
        producer.commit(message._replace(half=HalfPosition(HALF_PARTITIONS, 0)))  # no such partition
        producer.flush()
    assert f"The commit of transaction {message.transaction_id} did not reach Kafka" in caplog.text
    assert place.read(place.topics.op) == []


def test_of_a_long_remark_so_much_is_written_as_the_job_keeps(place: Place, producer: TransactionProducer) -> None:
    producer.commit(producer.prepare(Message("paid", b"value")), "x" * TOO_LARGE)
    producer.flush()
    assert [record.value for record in place.read(place.topics.op)] == [b"x" * 4096]


def test_nothing_is_sent_after_close(place: Place, producer: TransactionProducer, ran: Recorder) -> None:
    message = producer.prepare(Message("paid", b"value"))
    producer.close()
    producer.close()
    for use in (
        lambda: producer.send_in_transaction(Message("paid", b"value")),
        lambda: producer.prepare(Message("paid", b"value")),
        lambda: producer.commit(message),
        lambda: producer.rollback(message),
    ):
        with pytest.raises(ProducerClosedError):
            use()
    assert ran.ran == []
    assert len(place.read(place.topics.half)) == 1


def test_closing_writes_what_is_waiting(transport: TransportName, place: Place) -> None:
    with TransactionProducer(place.bootstrap_servers, "orders", topics=place.topics, transport=transport) as producer:
        messages = [producer.prepare(Message("paid", b"value")) for _ in range(10)]
        for message in messages:
            producer.commit(message)
    written = {dict(op.headers)["cb-id"].decode() for op in place.read(place.topics.op)}
    assert written == {message.transaction_id for message in messages}


def test_two_threads_share_one_producer(place: Place, producer: TransactionProducer, ran: Recorder) -> None:
    each, together = 60, threading.Barrier(2)

    def send(_: int) -> list[str]:
        together.wait(10)
        return [producer.send_in_transaction(Message("paid", b"value")).transaction_id for _ in range(each)]

    with ThreadPoolExecutor(2) as threads:
        first, second = threads.map(send, range(2))
    producer.flush()
    ids = {*first, *second}
    halves = {dict(half.headers)["cb-id"].decode(): half for half in place.read(place.topics.half)}
    ops = place.read(place.topics.op)
    assert len(ids) == len(ran.ran) == len(ops) == 2 * each
    assert halves.keys() == ids
    for op in ops:
        half = halves.pop(dict(op.headers)["cb-id"].decode())
        assert dict(op.headers)["cb-half"] == b"%d:%d" % (half.partition, half.offset)
        assert op.partition == half.partition
    assert halves == {}


def test_half_messages_go_to_all_partitions_in_runs() -> None:
    run = PartitionRun(lambda: 3)
    chosen = [run.next_partition() for _ in range(6 * 64)]
    assert Counter(chosen) == dict.fromkeys(range(3), 2 * 64)
    changes = sum(one != other for one, other in pairwise(chosen))
    assert changes <= 6


def test_a_transport_that_there_is_not_is_refused_by_name() -> None:
    with pytest.raises(ConfigurationError, match="no transport 'pigeon': use kafka-python or confluent-kafka"):
        TransactionProducer("localhost:1", "orders", transport="pigeon")


def test_in_a_forked_child_it_says_so(producer: TransactionProducer) -> None:
    """Its threads are not there after a fork: a child that waited for them would wait for ever."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:  # only system calls from here on: this is a copy of pytest
        try:
            producer.prepare(Message("paid", b"value"))
        except ProducerClosedError as error:
            os.write(write, str(error).encode())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as said:
        assert b"after the fork" in said.read()
    os.waitpid(child, 0)
