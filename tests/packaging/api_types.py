"""The types of the public API, as mypy and pyright see them; nothing here is run."""

from collections.abc import Sequence
from typing import assert_type

from checkback import (
    AsyncTransactionProducer,
    HalfMessage,
    HalfPosition,
    LocalTransactionState,
    Message,
    Transaction,
    TransactionOptions,
    TransactionProducer,
    TransactionScope,
    TransactionSendResult,
)
from checkback.consumer import (
    AsyncPushConsumer,
    ConsumeResult,
    ConsumerSettings,
    Figures,
    Mode,
    Order,
    PullConsumer,
    PushConsumer,
    ReceivedMessage,
    StartAt,
    WhenOffsetIsGone,
)
from checkback.kafka.connecting import TransportName
from checkback.testing import RecordedTransaction, RecordingTransport, ask

recording = RecordingTransport()
producer = TransactionProducer("localhost:9092", "shop", transport=recording)
message = Message("orders", b"1", key=b"k", headers=[("trace", b"1")], partition=1)

assert_type(producer.send_in_transaction(message, arg=1), TransactionSendResult)
assert_type(producer.prepare(message, options=TransactionOptions(check_max=1)), HalfMessage)
assert_type(producer.prepare(message).half, HalfPosition)
assert_type(producer.send(message), HalfMessage)
assert_type(producer.send_later(message, delay=60), HalfMessage)
assert_type(producer.begin().add(message), Transaction)
assert_type(producer.begin().add(message).send(arg=1), TransactionSendResult)

with producer.transaction(message) as scope:
    assert_type(scope, TransactionScope)
    assert_type(scope.transaction_id, str)
with producer.begin().add(message) as several:
    assert_type(several, TransactionScope)


def describe(order: int, *, stock: str) -> Message:
    return Message(stock, b"%d" % order)


@producer.transactional(describe)
def pay(scope: TransactionScope, order: int, *, stock: str) -> float:
    return len(scope.transaction_id) + order + len(stock)


assert_type(pay(1, stock="a"), float | None)
pay("1", stock="a")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]  # the function's own parameters
pay(1)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]  # likewise
TransactionProducer("localhost:9092", "shop", transport="kafka-python", missing_topic="warn", delivery="job")
TransactionProducer("localhost:9092", "shop", transport="confluent-kafka", missing_topic="refuse", delivery="direct")
TransactionProducer("localhost:9092", "shop", transport=TransportName.CONFLUENT, missing_topic="ignore")
producer.send_in_transaction("orders")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]  # a Message

assert_type(recording.committed, list[Message])
assert_type(recording.transactions[0], RecordedTransaction)
assert_type(ask(object(), recording.transactions[0]), LocalTransactionState)


def listener(received: ReceivedMessage) -> ConsumeResult:
    assert_type(received.value, bytes | None)
    assert_type(received.id, str)
    return ConsumeResult.SUCCESS


def of_several(received: Sequence[ReceivedMessage]) -> ConsumeResult:
    return ConsumeResult.LATER if received[0].tries else ConsumeResult.SUCCESS


async def awaited(received: ReceivedMessage) -> ConsumeResult:
    return listener(received)


settings = ConsumerSettings(concurrency=4, order=Order.KEY)
with PushConsumer("localhost:9092", "points", listener, "orders", settings=settings) as consumer:
    assert_type(consumer.figures(), Figures)
ConsumerSettings(mode="clustering", order="none", start_at="last", when_offset_is_gone="earliest")
ConsumerSettings(mode="broadcasting", order="partition", start_at="first", when_offset_is_gone="latest")
by_values = ConsumerSettings(order="key", start_at="timestamp", when_offset_is_gone="stop")
assert_type(by_values.mode, Mode)
assert_type(by_values.order, Order)
assert_type(by_values.start_at, StartAt)
assert_type(by_values.when_offset_is_gone, WhenOffsetIsGone)
ConsumerSettings(order=1)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]  # an Order, or its value
PushConsumer("localhost:9092", "points", of_several, {"orders": "paid"}, settings=ConsumerSettings(batch=9))
AsyncPushConsumer("localhost:9092", "points", awaited, ["orders"])
PullConsumer("localhost:9092")
PushConsumer("localhost:9092", "points", print, "orders")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]  # a result


async def in_asyncio() -> None:
    together = AsyncTransactionProducer(producer)
    assert_type(await together.prepare(message), HalfMessage)
    async with together.transaction(message) as scope:
        assert_type(scope.transaction_id, str)
