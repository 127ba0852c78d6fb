"""What a gateway writes, whichever protocol asked for it."""

import asyncio
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from access.credentials import Caller
from checkback.kafka.send_limits import SendLimits
from checkback.listener import LocalTransactionState
from checkback.wire.message_json import unpack
from checkback.wire.protocol import HalfPosition, Message, Topics, TransactionOptions
from checkback.wire.signed_records import SigningKey, WrittenSignature, parted, place_of, spelled, spelled_content
from gateway.asking import ClientAnswer
from gateway.refusals import GatewayError, RefusalReason
from gateway.transactions import ActingAs
from tests.gateway.scene import ANYBODY, KEYS, NOW_MS, POLICY, Scene, check_of
from tests.place import wait_until

ORDERS = ActingAs(ANYBODY, "orders")
ONE = Message("orders", b"one", b"key", [("a", b"1")])
COMMIT, ROLLBACK = LocalTransactionState.COMMIT, LocalTransactionState.ROLLBACK
SHOP, OTHER = Caller("shop", "shop-1"), Caller("other", "other-1")


def refused(coroutine: object) -> RefusalReason:
    with pytest.raises(GatewayError) as found:
        asyncio.run(coroutine)  # type: ignore[arg-type]  # each caller gives one
    return found.value.refusal


def test_a_half_message_is_written_as_the_sdk_writes_it() -> None:
    scene = Scene()
    ticket = asyncio.run(scene.transactions.begin(ORDERS, [ONE], TransactionOptions(check_max=3)))
    (record,) = scene.log.records
    opened = scene.seal.open(ticket)
    assert (record.topic, record.key, record.value) == ("cb.half", b"key", b"one")
    assert [(name, value) for name, value in record.headers if name != "cb-id"] == [
        ("cb-group", b"orders"),
        ("cb-topic", b"orders"),
        ("cb-check-max", b"3"),
        ("a", b"1"),
    ]
    assert opened == (HalfPosition(record.partition, 0), scene.log.headers(0)["cb-id"].decode(), "orders")


def test_several_messages_are_one_half_message() -> None:
    scene = Scene()
    two = Message("stock", b"two")
    asyncio.run(scene.transactions.begin(ORDERS, [ONE, two]))
    assert [(one.topic, one.value) for one in unpack(scene.log.records[0].value)] == [
        ("orders", b"one"),
        ("stock", b"two"),
    ]
    assert scene.log.headers(0)["cb-messages"] == b"2"


@pytest.mark.parametrize("state", LocalTransactionState)
async def test_an_end_is_the_producers_op(state: LocalTransactionState) -> None:
    scene = Scene()
    ticket = await scene.transactions.begin(ORDERS, [ONE])
    await scene.transactions.end(ANYBODY, ticket, state, "why")
    half, op = scene.log.records
    said = scene.log.headers(1)
    assert (op.topic, op.partition, op.value) == ("cb.op", half.partition, b"why")
    assert (said["cb-half"], said["cb-source"]) == (b"%d:0" % half.partition, b"producer")
    assert said["cb-action"].decode() == state.value


async def test_a_group_over_a_limit_is_refused_before_anything_is_written_and_what_takes_no_room_is_sent() -> None:
    scene = Scene()
    notices = {"orders": (2**62, "group orders has 21 of quotas.open = 20")}
    scene.transactions.limits = limits = SendLimits(
        lambda _, groups: {one: notices[one] for one in notices if one in groups}, Topics()
    )
    transactions = scene.transactions
    with suppress(GatewayError):  # what is not known yet is read while it is sent
        await transactions.begin(ORDERS, [ONE])
    wait_until(lambda: bool(limits._notices))
    scene.log.records.clear()
    for begun in (transactions.begin(ORDERS, [ONE]), transactions.send(ORDERS, ONE, "", NOW_MS + 60_000)):
        with pytest.raises(GatewayError, match=r"orders has 21 of quotas\.open = 20") as found:
            await begun
        assert (found.value.refusal, found.value.retriable) == (RefusalReason.BUSY, True)
    await transactions.send(ORDERS, ONE)
    await transactions.begin(ActingAs(ANYBODY, "invoices"), [ONE])
    assert [record.topic for record in scene.log.records] == ["orders", "cb.half"]


def test_what_is_too_far_ahead_is_refused_before_it_is_written() -> None:
    """The job would reject it, and nobody would be told."""
    scene = Scene()
    at_ms = NOW_MS + scene.transactions.most_delay_ms + 60_000
    options = TransactionOptions(deliver_at_ms=at_ms)
    far = [scene.transactions.begin(ORDERS, [ONE], options), scene.transactions.send(ORDERS, ONE, "", at_ms)]
    assert [refused(one) for one in far] == 2 * [RefusalReason.DELIVERY_TIME]
    assert scene.log.records == []


async def test_an_end_is_the_answer_to_whoever_asks_meanwhile() -> None:
    scene = Scene()

    class Client:
        client_id = "a"
        listening = True

        def hand(self, check: object) -> None:
            pass

        def take_back(self, check: object) -> bool:
            return False

    ticket = await scene.transactions.begin(ORDERS, [ONE])
    scene.asking.join(Client(), "orders")
    opened = scene.seal.open(ticket)
    check = replace(check_of(opened.half), transaction_id=opened.transaction_id, group=opened.group)
    asked = asyncio.ensure_future(scene.asking.ask(check))
    await asyncio.sleep(0)  # the question
    await asyncio.sleep(0)  # is asked
    await scene.transactions.end(ANYBODY, ticket, COMMIT)
    assert await asked == ClientAnswer(COMMIT, "")
    assert scene.log.headers(1)["cb-action"] == b"commit"  # whoever has asked may be gone before he has heard it


def test_a_forged_transaction_id_ends_nothing() -> None:
    scene = Scene()
    assert refused(scene.transactions.end(ANYBODY, "a.b", COMMIT)) is RefusalReason.TRANSACTION
    assert scene.log.records == []


async def test_what_is_sent_again_under_its_name_is_the_same_transaction() -> None:
    scene = Scene()
    begin = scene.transactions.begin
    both = await asyncio.gather(begin(ORDERS, [ONE], once="x"), begin(ORDERS, [ONE], once="x"))
    other = ActingAs(ANYBODY, "invoices")
    tickets = [*both, await begin(ORDERS, [ONE], once="y"), await begin(other, [ONE], once="x")]
    assert len(set(tickets)) == 3
    assert tickets[0] == tickets[1]
    assert len(scene.log.records) == 3


def test_two_gateways_give_what_has_a_name_one_id_and_one_partition() -> None:
    """So whoever looks, finds both: consumers by the id, the job on one partition."""
    scenes = [Scene(), Scene()]
    for scene in scenes:
        asyncio.run(scene.transactions.begin(ORDERS, [ONE], once="x"))
    first, second = (scene.log.records[0] for scene in scenes)
    assert (first.partition, first.headers) == (second.partition, second.headers)


def test_one_without_a_transaction_goes_to_its_topic_at_once() -> None:
    scene = Scene()
    name = asyncio.run(scene.transactions.send(ORDERS, ONE))
    (record,) = scene.log.records
    assert record == ("orders", -1, b"key", b"one", [("cb-id", name.encode()), ("a", b"1")])


def test_one_for_later_is_a_half_message_that_is_decided() -> None:
    scene = Scene()
    asyncio.run(scene.transactions.send(ORDERS, ONE, "", NOW_MS + 60_000))
    said = scene.log.headers(0)
    assert scene.log.records[0].topic == "cb.half"
    assert (said["cb-action"], said["cb-deliver-at"]) == (b"commit", b"%d" % (NOW_MS + 60_000))


@pytest.mark.parametrize(
    ("message", "why"),
    [
        (Message("cb.op", b"a forged op"), RefusalReason.REQUEST),
        (Message("__consumer_offsets", b""), RefusalReason.REQUEST),
        (Message("no such name!", b""), RefusalReason.REQUEST),
        (Message("orders", b"", None, [("cb-id", b"mine")]), RefusalReason.REQUEST),
        (Message("orders", bytes(17 << 20)), RefusalReason.TOO_LARGE),
        (Message("missing", b""), RefusalReason.NO_TOPIC),
        (Message("orders", None), RefusalReason.REQUEST),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_written(message: Message, why: RefusalReason) -> None:
    scene = Scene()
    scene.log.missing = frozenset({"missing"})
    assert refused(scene.transactions.begin(ORDERS, [ONE, message])) is why
    assert refused(scene.transactions.send(ORDERS, message)) is why
    assert refused(scene.transactions.send(ORDERS, message, "", 1)) is why
    assert scene.log.records == []


def test_no_account_acts_as_another_ones_group(guarded: Scene) -> None:
    ticket = asyncio.run(guarded.transactions.begin(ActingAs(SHOP, "orders"), [ONE]))
    assert refused(guarded.transactions.begin(ActingAs(OTHER, "orders"), [ONE])) is RefusalReason.RIGHTS
    assert refused(guarded.transactions.send(ActingAs(OTHER, "orders"), ONE)) is RefusalReason.RIGHTS
    assert refused(guarded.transactions.end(OTHER, ticket, COMMIT)) is RefusalReason.RIGHTS
    assert refused(guarded.transactions.send(ActingAs(SHOP, "orders"), Message("stock", b""))) is RefusalReason.RIGHTS
    assert len(guarded.log.records) == 1


def test_what_is_written_is_signed_with_the_senders_own_key(guarded: Scene) -> None:
    ticket = asyncio.run(guarded.transactions.begin(ActingAs(SHOP, "orders"), [ONE]))
    asyncio.run(guarded.transactions.end(SHOP, ticket, ROLLBACK))
    key = SigningKey("shop-1", KEYS["shop-1"])
    for record in guarded.log.records:
        ours, others = parted(record.headers)
        said = WrittenSignature.parse(dict(record.headers)["cb-signature"])
        assert said is not None
        content = spelled_content(record.key, record.value, spelled(others))
        assert said.fits(key, place_of(record.topic, record.partition), spelled(ours), content)


def test_a_key_that_is_taken_out_of_the_policy_acts_no_more(tmp_path: Path) -> None:
    policy = POLICY.replace('keys = ["shop-1"]', 'keys = ["shop-2"]')
    scene = Scene(policy=policy, keys={**KEYS, "shop-2": "c" * 40}, folder=tmp_path)
    assert not scene.accounts.may_act(SHOP, "orders")
    assert scene.accounts.may_act(Caller("shop", "shop-2"), "orders")
    assert not scene.accounts.may_act(Caller("shop", ""), "orders"), "without a key"


@pytest.mark.parametrize("act", ["begin", "send", "send_later"])
def test_looking_for_the_topic_is_part_of_the_time_that_clients_wait(act: str) -> None:
    """With Kafka away a post took 4.5 s: 1.5 s for the topic, and 3 s for the record."""
    scene = Scene()
    scene.transactions.patience_seconds = 60

    async def run() -> None:
        loop = asyncio.get_running_loop()
        time, slow = loop.time, asyncio.Event()
        scene.log.slow = slow

        async def look(topic: str) -> None:
            assert topic == ONE.topic
            loop.time = lambda: time() + 59.99  # type: ignore[method-assign]  # as if that had passed
            loop.call_later(1.0, slow.set)

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(scene.log, "look", look)
            if act == "send_later":
                await scene.transactions.send(ORDERS, ONE, "", NOW_MS)
            elif act == "send":
                await scene.transactions.send(ORDERS, ONE)
            else:
                await scene.transactions.begin(ORDERS, [ONE])

    with pytest.raises(GatewayError, match="may have it"):
        asyncio.run(run())


def test_too_many_headers_are_refused_before_each_is_looked_at() -> None:
    message = Message("orders", b"", None, [("cb-none", b"")] * 1_001)
    assert refused(Scene().transactions.send(ORDERS, message)) is RefusalReason.HEADERS_TOO_LARGE


async def test_what_kafka_has_not_acknowledged_in_time_is_the_same_when_it_is_sent_again() -> None:
    scene = Scene()
    scene.transactions.patience_seconds = 0.02
    scene.log.slow = asyncio.Event()
    with pytest.raises(GatewayError, match="may have it") as refused:
        await scene.transactions.begin(ORDERS, [ONE], once="x")
    assert refused.value.retriable
    scene.transactions.patience_seconds = 5
    again = asyncio.ensure_future(scene.transactions.begin(ORDERS, [ONE], once="x"))
    scene.log.slow.set()
    assert scene.seal.open(await again).half.offset == 0
    assert len(scene.log.records) == 1
