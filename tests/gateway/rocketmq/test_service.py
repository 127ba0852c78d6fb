"""What RocketMQ's clients insist on, call by call: shared/GATEWAY.md has measured it with them."""

import asyncio
import logging

import pytest

from checkback.listener import LocalTransactionState
from checkback.wire.limits import MAX_HEADERS
from checkback.wire.protocol import HalfPosition
from gateway.asking import ClientAnswer
from gateway.load import BytesInFlight
from gateway.rocketmq import server
from gateway.rocketmq.messages import refuse_many_fields
from gateway.rocketmq.v2 import definition_pb2 as v2
from gateway.rocketmq.v2 import service_pb2 as calls
from tests.gateway.rocketmq.calling import AT, TOPIC, half, serving, until
from tests.gateway.scene import KEYS, Scene, check_of


async def test_a_route_is_what_every_client_starts_with() -> None:
    async with serving() as there:
        route = await there.caller().route()
        (queue,) = route.message_queues
        assert route.status.code == v2.OK
        assert queue.broker.id == 0
        assert queue.broker.endpoints == AT
        assert queue.permission == v2.READ_WRITE
        assert list(queue.accept_message_types) == [v2.NORMAL, v2.FIFO, v2.DELAY, v2.TRANSACTION]


async def test_no_topic_is_said_as_rocketmq_says_it() -> None:
    async with serving() as there:
        there.scene.log.missing = frozenset({"missing"})
        assert (await there.caller().route(v2.Resource(name="missing"))).status.code == v2.TOPIC_NOT_FOUND
        assert (await there.caller().route(v2.Resource(name="a/b"))).status.code == v2.ILLEGAL_TOPIC


async def test_settings_are_answered_with_what_clients_do_not_start_without() -> None:
    async with serving() as there:
        _, answered = await there.caller().settled()
        settings = answered.settings
        assert settings.backoff_policy.HasField("exponential_backoff")
        assert settings.backoff_policy.max_attempts == 3
        assert settings.publishing.max_body_size == 4 << 20
        assert list(settings.publishing.topics) == [TOPIC]


async def test_a_client_without_a_stream_is_told_to_open_one() -> None:
    """Go's client does so then, within 17 s of a gateway's restart."""
    async with serving() as there:
        caller = there.caller()
        assert await caller.beat() == v2.UNRECOGNIZED_CLIENT_TYPE
        await caller.settled()
        assert await caller.beat() == v2.OK


async def test_a_client_without_a_stream_gets_its_address_in_another_spelling() -> None:
    """Python's client opens a stream to an address that is new to it."""
    async with serving() as there:
        caller = there.caller()
        schemes = [(await caller.route()).message_queues[0].broker.endpoints.scheme for _ in range(3)]
        assert schemes == [v2.IPv4, v2.DOMAIN_NAME, v2.IPv4]
        await caller.settled()
        schemes = [(await caller.route()).message_queues[0].broker.endpoints.scheme for _ in range(2)]
        assert schemes == [v2.IPv4, v2.IPv4]


@pytest.mark.parametrize("resolution", [v2.COMMIT, v2.ROLLBACK, v2.TRANSACTION_RESOLUTION_UNSPECIFIED])
async def test_a_half_message_is_sent_and_ended(resolution: v2.TransactionResolution) -> None:
    async with serving() as there:
        caller = there.caller()
        sent = await caller.send(half())
        (entry,) = sent.entries
        assert (sent.status.code, entry.status.code, entry.message_id) == (v2.OK, v2.OK, "M1")
        assert (await caller.end(entry.transaction_id, resolution)).status.code == v2.OK
        said = there.scene.log.headers(1)["cb-action"]
        assert said == {v2.COMMIT: b"commit", v2.ROLLBACK: b"rollback"}.get(resolution, b"unknown")


async def test_a_forged_transaction_id_is_refused() -> None:
    async with serving() as there:
        assert (await there.caller().end("forged")).status.code == v2.INVALID_TRANSACTION_ID


async def test_each_message_has_a_status_and_the_first_refusal_is_that_of_all() -> None:
    async with serving() as there:
        there.scene.log.missing = frozenset({"missing"})
        sent = await there.caller().send(half(), half(message_id="M2", topic=v2.Resource(name="missing")))
        assert [entry.status.code for entry in sent.entries] == [v2.OK, v2.TOPIC_NOT_FOUND]
        assert sent.status.code == v2.TOPIC_NOT_FOUND
        for number in (0, 65):
            assert (await there.caller().send(*[half()] * number)).status.code == v2.BAD_REQUEST


async def test_a_check_comes_down_the_stream_and_its_end_is_the_answer() -> None:
    async with serving() as there:
        caller = there.caller()
        stream, _ = await caller.settled()
        asked = asyncio.ensure_future(there.scene.asking.ask(check_of(HalfPosition(1, 7))))
        command = (await stream.read()).recover_orphaned_transaction_command
        assert (command.message.body, command.message.topic) == (b"body", TOPIC)
        assert (await caller.end(command.transaction_id, v2.ROLLBACK)).status.code == v2.OK
        assert await asked == ClientAnswer(LocalTransactionState.ROLLBACK, "")
        assert there.scene.log.headers(0)["cb-action"] == b"rollback"  # who has asked may be gone


async def test_a_stream_that_has_said_nothing_is_known_by_its_route() -> None:
    """Python's second stream sends no settings."""
    async with serving() as there:
        caller = there.caller()
        await caller.route()
        stream = caller.stream()
        await stream.wait_for_connection()
        await until(lambda: there.scene.asking.groups() == ["orders"])
        stream.cancel()
        await until(lambda: there.scene.asking.groups() == [])


async def test_a_client_that_ends_is_not_asked_any_more() -> None:
    async with serving() as there:
        caller = there.caller()
        await caller.settled()
        assert there.scene.asking.groups() == ["orders"]
        request = calls.NotifyClientTerminationRequest()
        await caller.call("NotifyClientTermination", request, calls.NotifyClientTerminationResponse)
        assert there.scene.asking.groups() == []


async def test_what_is_not_there_is_said_so_and_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "gateway"):
        async with serving() as there:
            caller = there.caller()
            for _ in range(2):
                said = await caller.call("AckMessage", calls.AckMessageRequest(), calls.AckMessageResponse)
                assert said.status.code == v2.NOT_IMPLEMENTED
    assert [record.getMessage() for record in caplog.records] == [
        "A client calls AckMessage, which a gateway does not have: it is told so."
    ]


async def test_the_wrong_secret_opens_nothing(guarded: Scene) -> None:
    async with serving(guarded) as there:
        for caller in (there.caller(), there.caller(key="shop-1", secret="x" * 40), there.caller(key="nobody")):
            assert (await caller.route()).status.code == v2.UNAUTHORIZED
            assert (await caller.send(half())).status.code == v2.UNAUTHORIZED
            assert (await caller.end("x")).status.code == v2.UNAUTHORIZED
            assert await caller.beat() == v2.UNAUTHORIZED
            assert (await caller.stream().read()).status.code == v2.UNAUTHORIZED
        assert (await there.caller(key="shop-1", secret=KEYS["shop-1"]).route()).status.code == v2.OK


async def test_nobody_is_asked_about_another_accounts_transactions(guarded: Scene) -> None:
    async with serving(guarded) as there:
        thief = there.caller("client-1", "other-1", KEYS["other-1"])
        stream, _ = await thief.settled()  # it says that it sends to orders
        await thief.route()
        assert there.scene.asking.groups() == []
        owner = there.caller("client-1", "shop-1", KEYS["shop-1"])  # of the same client id
        sent = await owner.send(half())
        assert sent.status.code == v2.OK
        assert there.scene.asking.groups() == []
        assert (await thief.end(sent.entries[0].transaction_id)).status.code == v2.FORBIDDEN
        stream.cancel()


async def test_an_access_key_can_have_a_group_of_its_own() -> None:
    async with serving(groups={"": "all of the shop"}) as there:
        await there.caller().settled()
        assert there.scene.asking.groups() == ["all of the shop"]


async def test_a_namespace_makes_another_group_and_topic() -> None:
    async with serving() as there:
        await there.caller().send(half(topic=v2.Resource(resource_namespace="shop", name="orders")))
        said = there.scene.log.headers(0)
        assert (said["cb-group"], said["cb-topic"]) == (b"shop%orders", b"shop.orders")


@pytest.mark.parametrize(
    "message",
    [
        v2.Message(system_properties=v2.SystemProperties(keys=["k"] * 200_000)),
        v2.Message(topic=TOPIC, user_properties={f"{number:x}": "" for number in range(50_000)}),
    ],
)
async def test_keys_and_properties_are_counted_first(message: v2.Message, monkeypatch: pytest.MonkeyPatch) -> None:
    """1.6 million keys stopped the whole process for seconds."""

    def converted(_refusal: object, _what: str, texts: list[str]) -> None:
        assert len(texts) <= MAX_HEADERS

    async with serving() as there:
        monkeypatch.setattr("gateway.rocketmq.messages._refuse_text", converted)
        assert (await there.caller().send(message)).status.code == v2.MESSAGE_PROPERTIES_TOO_LARGE


async def test_of_very_many_messages_none_is_converted(monkeypatch: pytest.MonkeyPatch) -> None:
    """5 MiB of empty ones took 2.1 GiB, and stopped the process for 10 s."""
    sizes, plain = list[int](), refuse_many_fields

    def counted(raw: bytes) -> None:
        sizes.append(len(raw))
        plain(raw)

    async with serving() as there:
        monkeypatch.setattr(server, "refuse_many_fields", counted)
        answer = await there.caller().send(*[v2.Message()] * 65)
        assert (answer.status.code, answer.status.message) == (v2.BAD_REQUEST, "At most 64 messages are taken at once.")
    assert sizes == [130]


async def test_what_a_call_may_have_is_not_refused() -> None:
    most = half(b"b" * (1 << 20))
    most.user_properties.update({f"name-{number}": "text" for number in range(128)})
    most.system_properties.keys.extend(["k"] * 60)
    async with serving() as there:
        assert (await there.caller().send(*[most] * 3)).status.code == v2.OK


async def test_a_call_without_messages_is_short() -> None:
    async with serving() as there:
        route = await there.caller().route(v2.Resource(name="n" * 70_000))
        assert route.status.code == v2.MESSAGE_BODY_TOO_LARGE
        stream, _ = await there.caller().settled(topic=v2.Resource(name="n" * 70_000))
        assert await stream.code() is not None, "it has ended"


async def test_an_account_holds_no_more_bytes_than_it_leaves_free() -> None:
    async with serving() as there:
        there.scene.accounts.in_flight = BytesInFlight(100_000)
        assert (await there.caller().send(half(b"b" * 60_000))).status.code == v2.TOO_MANY_REQUESTS
        assert (await there.caller().send(half(b"b" * 20_000))).status.code == v2.OK


async def test_a_clients_name_is_short() -> None:
    """The last hundred thousand are remembered."""
    async with serving() as there:
        assert (await there.caller("c" * 256).route()).status.code == v2.BAD_REQUEST
        assert (await there.caller("c" * 255).route()).status.code == v2.OK
