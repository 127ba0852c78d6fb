"""A whole process of a gateway, with a real Kafka: what it writes, what it announces, and how it ends."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from typing import Any

import grpc
import httpx
import pytest
from pydantic import SecretStr

from checkback.exceptions import ConfigurationError
from checkback.kafka.topic_reading import reading_consumer, records_to_end
from checkback.local.kafka import free_port
from checkback.wire.checks import CheckRequest
from checkback.wire.protocol import HalfPosition
from conf import Settings
from gateway.process import GatewayProcess, refuse_strangers
from gateway.rocketmq.v2 import definition_pb2 as v2
from tests.gateway.rocketmq.calling import Caller, half
from tests.gateway.scene import NOW_MS, SECRET
from tests.place import Place, configure_topic


def settings(place: Place, **gateway: Any) -> Settings:
    kafka = {"bootstrap_servers": place.bootstrap_servers, "topic_prefix": place.topics.prefix}
    own = {"port": free_port(), "http_port": 0, "secrets": [SECRET], **gateway}
    return Settings.model_validate({"kafka": kafka, "gateway": own})


def read(place: Place, topic: str) -> list[Any]:
    with closing(reading_consumer(place.bootstrap_servers)) as consumer:
        return list(records_to_end(consumer, topic))


@asynccontextmanager
async def running(made: Settings) -> AsyncIterator[tuple[GatewayProcess, Caller]]:
    async with GatewayProcess(made) as process, grpc.aio.insecure_channel(f"127.0.0.1:{process.port}") as channel:
        yield process, Caller(channel)


def of_topic(place: Place, body: bytes = b"body", **system: Any) -> v2.Message:
    topic = v2.Resource(name=place.real_topic)
    if not system:
        return half(body, topic=topic)
    return v2.Message(topic=topic, body=body, system_properties=v2.SystemProperties(**system))


async def test_what_one_has_begun_another_ends(place: Place) -> None:
    async with running(settings(place)) as (_, caller):
        sent = await caller.send(of_topic(place))
        assert sent.status.code == v2.OK
    async with running(settings(place)) as (_, caller):
        assert (await caller.end(sent.entries[0].transaction_id)).status.code == v2.OK
    (written,), (op,) = read(place, place.topics.half), read(place, place.topics.op)
    said = dict(op.headers)
    assert (said["cb-half"].decode(), said["cb-action"]) == (f"{written.partition}:{written.offset}", b"commit")
    assert (said["cb-id"], said["cb-group"]) == (dict(written.headers)["cb-id"], place.real_topic.encode())


async def test_ordered_messages_lie_on_one_partition_in_their_order(place: Place) -> None:
    async with running(settings(place)) as (_, caller):
        for number in range(20):
            await caller.send(of_topic(place, b"%d" % number, message_type=v2.FIFO, message_group="g"))
    records = read(place, place.real_topic)
    assert len({record.partition for record in records}) == 1
    assert [record.value for record in records] == [b"%d" % number for number in range(20)]


async def test_a_group_is_announced_while_somebody_can_be_asked(place: Place) -> None:
    async with running(settings(place)) as (process, caller):
        stream, _ = await caller.settled(topic=v2.Resource(name=place.real_topic))
        async with asyncio.timeout(20):
            while not (found := await asyncio.to_thread(read, place, place.topics.producers)):
                pass
        said = json.loads(found[0].value)
        assert said["group"] == place.real_topic
        assert said["url"] == f"http://127.0.0.1:{process.check_port}/checks/{place.real_topic}"
        stream.cancel()
    assert read(place, place.topics.producers)[-1].value is None  # taken back


def check(place: Place, position: HalfPosition, left_out: int, name: str = "id") -> dict[str, Any]:
    value = None if left_out else b"body"
    topic = place.real_topic
    return CheckRequest(name, topic, topic, None, value, [], position, 1, 15, NOW_MS, left_out=left_out).to_json()


async def until_asked(checking: httpx.AsyncClient, url: str, request: dict[str, Any]) -> None:
    """The first time that it is read from Kafka may take longer than a check has: then it is asked again."""
    async with asyncio.timeout(60):
        while (await checking.post(url, json=request)).status_code == 503:
            pass


async def test_a_large_message_is_read_from_kafka_for_its_check(place: Place) -> None:
    body = bytes(200_000)
    async with running(settings(place)) as (process, caller):
        sent = await caller.send(of_topic(place, body))
        stream, _ = await caller.settled(topic=v2.Resource(name=place.real_topic))
        (record,) = await asyncio.to_thread(read, place, place.topics.half)
        name = dict(record.headers)["cb-id"].decode()
        request = check(place, HalfPosition(record.partition, record.offset), len(body), name)
        url = f"http://127.0.0.1:{process.check_port}/checks/{place.real_topic}"
        async with httpx.AsyncClient(timeout=20) as checking:
            asked = asyncio.ensure_future(until_asked(checking, url, request))
            command = (await stream.read()).recover_orphaned_transaction_command
            assert command.message.body == body
            assert command.message.system_properties.message_id == sent.entries[0].message_id
            assert (await caller.end(command.transaction_id)).status.code == v2.OK
            await asked
        stream.cancel()
    (op,) = read(place, place.topics.op)
    assert dict(op.headers)["cb-action"] == b"commit"


async def test_what_was_sent_again_to_another_gateway_is_rolled_back_when_the_other_one_is_committed(
    place: Place,
) -> None:
    message = of_topic(place, message_type=v2.TRANSACTION, message_id="01AB")
    async with running(settings(place)) as (_, caller):
        await caller.send(message)
    async with running(settings(place)) as (process, caller):
        sent = await caller.send(message)
        stream, _ = await caller.settled(topic=v2.Resource(name=place.real_topic))
        first, second = await asyncio.to_thread(read, place, place.topics.half)
        topic, name = place.real_topic, dict(first.headers)["cb-id"].decode()
        half = HalfPosition(first.partition, first.offset)
        request = CheckRequest(name, topic, topic, None, b"body", [], half, 1, 15, NOW_MS).to_json()
        url = f"http://127.0.0.1:{process.check_port}/checks/{topic}"
        async with httpx.AsyncClient(timeout=20) as checking:
            asking = asyncio.ensure_future(until_asked(checking, url, request))
            command = (await stream.read()).recover_orphaned_transaction_command
            assert (await caller.end(command.transaction_id)).status.code == v2.OK  # as its checker would
            await asking
            assert await asyncio.to_thread(read, place, place.topics.op) == []  # it has said so of the first one alone
            assert (await caller.end(sent.entries[0].transaction_id)).status.code == v2.OK
            answer = (await checking.post(url, json=request)).json()
        assert answer["state"] == "rollback"
        assert f"{second.partition}:{second.offset} was committed" in answer["remark"]
        stream.cancel()


async def test_what_topics_take_a_gateway_takes(place: Place) -> None:
    body = bytes(3 << 20)
    async with running(settings(place)) as (_, caller):
        refused = (await caller.send(of_topic(place, body))).status
        assert (refused.code, "max.message.bytes" in refused.message) == (v2.MESSAGE_BODY_TOO_LARGE, True)
        larger = {"max_message_bytes": str(8 << 20)}
        await asyncio.to_thread(configure_topic, place.bootstrap_servers, place.topics.half, **larger)
        assert (await caller.send(of_topic(place, body))).status.code == v2.OK
    (record,) = read(place, place.topics.half)
    assert record.value == body


async def test_a_gateway_without_clients_of_a_group_says_that_nobody_is_there(place: Place) -> None:
    async with running(settings(place)) as (process, _):
        checking = httpx.AsyncClient(base_url=f"http://127.0.0.1:{process.check_port}")
        answer = await checking.post(f"/checks/{place.real_topic}", json=check(place, HalfPosition(0, 0), 0))
        assert answer.status_code == 503
        assert [(await checking.get(path)).status_code for path in ("/live", "/ready")] == [200, 200]
        assert 'checkback_gateway_checks_total{state="nobody"} 1.0' in (await checking.get("/metrics")).text
        await checking.aclose()


async def test_a_topic_that_kafka_does_not_have_is_refused(place: Place) -> None:
    async with running(settings(place)) as (_, caller):
        missing = half(topic=v2.Resource(name="no-such-topic"))
        assert (await caller.send(missing)).status.code == v2.TOPIC_NOT_FOUND
    assert read(place, place.topics.half) == []


@pytest.mark.parametrize("host", ["::", "10.0.0.1", "gateway.example"])
def test_without_accounts_nobody_from_elsewhere_is_let_in(host: str) -> None:
    made = Settings.model_validate({"gateway": {"host": host, "secrets": [SecretStr(SECRET)]}})
    with pytest.raises(ConfigurationError, match=r"access\.policy"):
        refuse_strangers(made)


async def test_a_port_that_is_not_wanted_is_not_there(place: Place) -> None:
    """Nor one with TLS, where only HTTP is to have it."""
    async with GatewayProcess(settings(place, port=0)) as process:
        assert (process.port, process.tls_port, process.http_port) == (0, 0, 0)
