"""A block, a function or a coroutine as the local transaction, on a real Kafka."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from checkback import (
    AsyncTransactionProducer,
    CheckbackError,
    HalfMessageError,
    Message,
    Rollback,
    TransactionOptions,
    TransactionProducer,
    TransactionScope,
)
from checkback.wire.message_json import unpack
from tests.place import Place


@pytest.fixture
def producer(place: Place) -> Iterator[TransactionProducer]:
    with TransactionProducer(place.bootstrap_servers, "orders", topics=place.topics) as made:
        yield made


def ops(place: Place, producer: TransactionProducer) -> dict[str, tuple[str, str]]:
    """Action and remark of each transaction's op."""
    producer.flush()
    found = {}
    for op in place.read(place.topics.op):
        headers = dict(op.headers)
        found[headers["cb-id"].decode()] = (headers["cb-action"].decode(), op.value.decode())
    return found


def halves(place: Place) -> dict[str, Any]:
    return {dict(half.headers)["cb-id"].decode(): half for half in place.read(place.topics.half)}


def test_leaving_a_block_commits(place: Place, producer: TransactionProducer) -> None:
    with producer.transaction(
        Message("paid", b"value", b"key", headers=[("a", b"1")], partition=3), options=TransactionOptions(check_max=4)
    ) as scope:
        half = halves(place)[scope.transaction_id]
        assert ops(place, producer) == {}
    assert (half.key, half.value, half.offset) == (b"key", b"value", scope.message.half.offset)
    assert dict(half.headers)["cb-partition"] == b"3"
    assert dict(half.headers)["cb-check-max"] == b"4"
    assert ops(place, producer) == {scope.transaction_id: ("commit", "")}


def test_rollback_rolls_back_and_goes_no_further(place: Place, producer: TransactionProducer) -> None:
    with producer.transaction(Message("paid", b"value")) as scope:
        raise Rollback("out of stock")
    assert ops(place, producer) == {scope.transaction_id: ("rollback", "out of stock")}


@pytest.mark.parametrize("error", [LookupError("gone"), KeyboardInterrupt()])
def test_any_other_exception_is_unknown_and_raised_on(
    place: Place, producer: TransactionProducer, error: BaseException
) -> None:
    with pytest.raises(type(error)), producer.transaction(Message("paid", b"value")) as scope:
        raise error
    assert ops(place, producer) == {scope.transaction_id: ("unknown", f"the transaction's code raised {error!r}")}


def test_without_a_half_message_the_block_does_not_run(producer: TransactionProducer) -> None:
    ran = []
    with pytest.raises(HalfMessageError), producer.transaction(Message("paid", b"x" * 2_000_000)):
        ran.append(1)
    assert ran == []


def test_a_scope_is_for_one_transaction(producer: TransactionProducer) -> None:
    scope = producer.transaction(Message("paid", b"value"))
    with pytest.raises(CheckbackError, match="not begun"):
        _ = scope.transaction_id
    with scope:
        pass
    with pytest.raises(CheckbackError, match="begin only once"), scope:
        pass


def test_a_block_for_several_messages(place: Place, producer: TransactionProducer) -> None:
    with producer.begin().add(Message("paid", b"1", b"k")).add(Message("points", b"2")) as scope:
        half = halves(place)[scope.transaction_id]
    assert unpack(half.value) == (Message("paid", b"1", b"k", []), Message("points", b"2", None, []))
    assert dict(half.headers)["cb-messages"] == b"2"
    assert ops(place, producer) == {scope.transaction_id: ("commit", "")}


def test_a_decorated_function_is_a_transaction(place: Place, producer: TransactionProducer) -> None:
    seen = []

    @producer.transactional(lambda order, stock: Message("paid", b"%d" % order, b"%d" % stock))
    def pay(scope: TransactionScope, order: int, stock: int) -> str:
        """Pay an order."""
        seen.append(scope.transaction_id)
        if not stock:
            raise Rollback
        return f"paid {order}"

    assert (pay(7, 1), pay(8, stock=0)) == ("paid 7", None)
    assert pay.__doc__ == "Pay an order."
    assert [halves(place)[name].value for name in seen] == [b"7", b"8"]
    assert [ops(place, producer)[name][0] for name in seen] == ["commit", "rollback"]


def test_a_decorated_function_may_have_several_messages(place: Place, producer: TransactionProducer) -> None:
    @producer.transactional(lambda *topics: [Message(topic, b"value") for topic in topics])
    def pay(scope: TransactionScope, *_: str) -> str:
        return scope.transaction_id

    name = pay("paid", "points")
    assert name is not None
    assert [message.topic for message in unpack(halves(place)[name].value)] == ["paid", "points"]


def test_coroutines_are_transactions_side_by_side(place: Place, producer: TransactionProducer) -> None:
    async def pay(together: AsyncTransactionProducer, number: int) -> str:
        async with together.transaction(Message("paid", b"%d" % number)) as scope:
            await asyncio.sleep(0)
            if number % 3 == 0:
                raise Rollback
        return scope.transaction_id

    async def all_of_them() -> list[str]:
        async with AsyncTransactionProducer(producer) as together:
            return await asyncio.gather(*(pay(together, number) for number in range(30)))

    names = asyncio.run(all_of_them())
    written = halves(place)
    ended = ops(place, producer)
    assert [written[name].value for name in names] == [b"%d" % number for number in range(30)]
    assert [ended[name][0] for name in names] == [("rollback", "commit", "commit")[n % 3] for n in range(30)]


def test_a_cancelled_coroutine_leaves_its_outcome_unknown(place: Place, producer: TransactionProducer) -> None:
    async def cancelled() -> str:
        names = []
        inside = asyncio.Event()

        async def pay(together: AsyncTransactionProducer) -> None:
            async with together.begin().add(Message("paid", b"1")).add(Message("points", b"2")) as scope:
                names.append(scope.transaction_id)
                inside.set()
                await asyncio.Event().wait()

        async with AsyncTransactionProducer(producer) as together:
            task = asyncio.create_task(pay(together))
            await inside.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        return names[0]

    name = asyncio.run(cancelled())
    assert ops(place, producer)[name][0] == "unknown"


def test_the_plain_steps_are_there_for_coroutines(place: Place, producer: TransactionProducer) -> None:
    async def steps() -> tuple[str, str]:
        async with AsyncTransactionProducer(producer) as together:
            kept, dropped = await together.prepare(Message("paid", b"1")), await together.prepare(Message("paid", b"2"))
            await together.commit(kept)
            await together.rollback(dropped, "why")
            await together.flush()
        return kept.transaction_id, dropped.transaction_id

    kept, dropped = asyncio.run(steps())
    assert ops(place, producer) == {kept: ("commit", ""), dropped: ("rollback", "why")}
