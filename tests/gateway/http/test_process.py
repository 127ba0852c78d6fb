"""A whole process of a gateway on a real Kafka, as somebody with ``curl`` meets it."""

import asyncio
import shutil
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from checkback.answering.http_connections import BoundedConnection
from checkback.local.kafka import free_port
from checkback.wire.checks import Announcement
from conf import Settings
from gateway.process import GatewayProcess
from tests.gateway.http.served import SECRET, check
from tests.place import Place
from tests.safe_kafka import certificates

FAR = 120.0


def settings_of(place: Place, **more: Any) -> Settings:
    return place.settings(gateway={"port": 0, "http_port": free_port(), "secrets": [SECRET], **more})


@asynccontextmanager
async def running(
    settings: Settings, scheme: str = "http", **more: Any
) -> AsyncIterator[tuple[httpx.AsyncClient, GatewayProcess]]:
    """A client, and the gateway that it calls."""
    async with asyncio.timeout(FAR), GatewayProcess(settings) as gateway:
        url = f"{scheme}://127.0.0.1:{gateway.http_port}"
        async with httpx.AsyncClient(base_url=url, timeout=FAR, **more) as client:
            yield client, gateway


async def test_a_half_message_and_its_commit_are_in_kafka(place: Place) -> None:
    async with running(settings_of(place)) as (client, _):
        message = {"topic": place.real_topic, "key": "17", "value": "a book"}
        assert (await client.get("/ready")).status_code == 200
        begun = await client.post("/v1/groups/shop/transactions", json={"message": message})
        assert begun.status_code == 201, begun.text
        ended = await client.post(f"/v1/transactions/{begun.json()['transaction']}/commit", json={"remark": "paid"})
        assert ended.status_code == 204, ended.text
    (half,), (op,) = place.read(place.topics.half), place.read(place.topics.op)
    assert (half.key, half.value, op.value) == (b"17", b"a book", b"paid")
    assert dict(half.headers)["cb-topic"] == place.real_topic.encode()
    assert dict(op.headers)["cb-half"] == f"{half.partition}:{half.offset}".encode()
    assert dict(op.headers)["cb-action"] == b"commit"
    assert dict(op.headers)["cb-id"] == dict(half.headers)["cb-id"]


async def test_a_poll_is_announced_asked_and_taken_back(place: Place) -> None:
    """And its answer is the check service's, which here is the test."""
    async with running(settings_of(place)) as (client, gateway):
        polling = asyncio.ensure_future(client.get("/v1/groups/shop/checks?wait=60"))
        while not (announced := await asyncio.to_thread(place.read, place.topics.producers)):
            pass
        said = Announcement.from_record(announced[0].value)
        assert said.group == "shop"
        assert f":{gateway.check_port}/" in said.url
        async with httpx.AsyncClient(timeout=FAR) as service:
            asking = asyncio.ensure_future(service.post(said.url, json=check().to_json()))
            (one,) = (await polling).json()["checks"]
            answered = await client.post(f"/v1/transactions/{one['transaction']}/rollback")
            assert answered.status_code == 204
            assert (await asking).json()["id"] == "tx-0"
    records = place.read(place.topics.producers)
    assert records[-1].key == records[0].key
    assert records[-1].value is None
    (op,) = place.read(place.topics.op)
    assert dict(op.headers)["cb-action"] == b"rollback"


async def test_who_waits_when_the_gateway_ends_is_answered(place: Place) -> None:
    async with asyncio.timeout(FAR), httpx.AsyncClient(timeout=FAR) as client:
        async with GatewayProcess(settings_of(place)) as gateway:
            url = f"http://127.0.0.1:{gateway.http_port}/v1/groups/shop/checks?wait=60"
            polling = asyncio.ensure_future(client.get(url))
            while not await asyncio.to_thread(place.read, place.topics.producers):
                pass
        answer = await polling
    assert (answer.status_code, answer.json()) == (200, {"checks": []})


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificate")
async def test_it_speaks_tls_where_there_is_a_certificate(place: Place, tmp_path: Path) -> None:
    certificates(tmp_path)
    named = {"tls_certificate": str(tmp_path / "broker.pem"), "tls_key": str(tmp_path / "broker.key")}
    context = ssl.create_default_context(cafile=str(tmp_path / "authority.pem"))
    async with running(settings_of(place, **named), "https", verify=context) as (client, _):
        assert (await client.get("/live")).text == "live\n"


async def test_who_does_not_come_to_the_end_of_a_request_is_not_waited_for(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each held a descriptor for ever; of who polls nothing is cut off."""
    monkeypatch.setattr(BoundedConnection, "idle_seconds", 0.3)
    async with running(settings_of(place)) as (client, gateway):
        polling = asyncio.ensure_future(client.get("/v1/groups/shop/checks?wait=2"))
        for begun in (b"", b"GET /live HTTP/1.1\r\nhost: a\r\n"):
            reader, writer = await asyncio.open_connection("127.0.0.1", gateway.http_port)
            writer.write(begun)
            assert await reader.read() == b""
            writer.close()
        assert (await polling).status_code == 200
