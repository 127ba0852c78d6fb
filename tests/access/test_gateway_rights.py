"""A gateway does its whole work with exactly its rights, and each that is taken away is named."""

import asyncio
import logging
from contextlib import closing
from typing import Any

import grpc
import httpx
import pytest

from access import Operation, Right, Role, Whom
from checkback.kafka.topic_reading import reading_consumer, records_to_end
from checkback.local.kafka import free_port
from checkback.wire.checks import CheckRequest
from checkback.wire.protocol import HalfPosition
from gateway.process import GatewayProcess
from gateway.rocketmq.v2 import definition_pb2 as v2
from tests.access.guarded import ORDERS, TOPICS, Guarded, guarded
from tests.gateway.rocketmq.calling import Caller, half
from tests.gateway.scene import NOW_MS, SECRET

__all__ = ["guarded"]
USER = "gateway"
OF_ORDERS = v2.Resource(name=ORDERS)
_ROUNDS = 40


@pytest.fixture(name="rights", scope="module")
def let_in(guarded: Guarded) -> tuple[Right, ...]:
    return guarded.let_in(USER, Role.GATEWAY, Whom(real=(ORDERS,)))


def halves(here: Guarded) -> list[Any]:
    with closing(reading_consumer(here.kafka.bootstrap_servers)) as consumer:
        return list(records_to_end(consumer, TOPICS.half))


class Work:
    """All that a gateway does, as a client sees it; ``said`` are the answers that refuse something."""

    def __init__(self, here: Guarded, name: str) -> None:
        self.here, self.name = here, name
        self.said: list[str] = []

    async def run(self) -> None:
        for _ in range(2):  # the second process is sent the same once more
            settings = self.here.settings(USER, gateway={"port": free_port(), "http_port": 0, "secrets": [SECRET]})
            async with (
                GatewayProcess(settings) as process,
                grpc.aio.insecure_channel(f"127.0.0.1:{process.port}") as channel,
            ):
                await self._send(Caller(channel))
                await self._check(process, Caller(channel))

    async def _send(self, caller: Caller) -> None:
        sent = await caller.send(half(bytes(1_000), self.name, OF_ORDERS))
        self._hear(sent.status)
        if sent.status.code == v2.OK:
            self._hear((await caller.end(sent.entries[0].transaction_id)).status)
        for kind in (v2.NORMAL, v2.FIFO):
            system = v2.SystemProperties(message_type=kind, message_id=f"{self.name}-{kind}")
            if kind == v2.FIFO:
                system.message_group = "g"
            self._hear((await caller.send(v2.Message(topic=OF_ORDERS, body=b"v", system_properties=system))).status)

    async def _check(self, process: GatewayProcess, caller: Caller) -> None:
        """Of a message that is read from Kafka, and may have been sent twice."""
        written = await asyncio.to_thread(halves, self.here)
        if not written:
            return
        stream, _ = await caller.settled(topic=OF_ORDERS)
        last = written[-1]
        at, name = HalfPosition(last.partition, last.offset), dict(last.headers)["cb-id"].decode()
        request = CheckRequest(name, ORDERS, ORDERS, None, None, [], at, 1, 15, NOW_MS, left_out=1_000).to_json()
        async with httpx.AsyncClient(timeout=20) as checking:
            url = f"http://127.0.0.1:{process.check_port}/checks/{ORDERS}"
            for _ in range(_ROUNDS):  # the first time that it is read it may take longer than a check has
                if (await checking.post(url, json=request)).status_code != 503:
                    break
        stream.cancel()

    def _hear(self, status: v2.Status) -> None:
        if status.code != v2.OK:
            self.said.append(status.message)


def test_it_does_its_whole_work_with_them(guarded: Guarded, rights: tuple[Right, ...]) -> None:
    work = Work(guarded, "whole")
    asyncio.run(work.run())
    assert len(rights) == 8
    assert (work.said, guarded.denials(USER)) == ([], [])


@pytest.mark.parametrize("number", range(8))
def test_each_that_is_taken_away_is_named(
    guarded: Guarded, rights: tuple[Right, ...], number: int, caplog: pytest.LogCaptureFixture
) -> None:
    right = rights[number]
    work = Work(guarded, f"without-{number}")
    guarded.take(USER, right)
    try:
        asyncio.run(work.run())
    finally:
        guarded.give(USER, right)
    warned = [one.getMessage() for one in caplog.records if one.levelno >= logging.WARNING]
    wanted = "grant its user Write" if right.operation is Operation.WRITE else f"grant its user {right}"
    assert [said for said in (*work.said, *warned) if wanted in said and right.name in said], (work.said, warned)
