"""A gateway: transactions a second and the CPU time of each, the time of a half message's answer, many open streams."""

import asyncio
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import grpc
import numpy as np
import psutil

from bench.memory import tree_of
from bench.running import Tell, party
from bench.workload import REAL_TOPIC, workplace
from checkback.exceptions import CheckbackError
from gateway.rocketmq.v2 import definition_pb2 as v2
from gateway.rocketmq.v2 import service_pb2 as calls

_SERVICE = "/apache.rocketmq.v2.MessagingService/"
_BODY = bytes(256)
_WARM_UP_SECONDS = 5.0
_START_SECONDS = 60.0
_AT_ONCE = 64
_STREAMS_AT_ONCE = 200
_TOPIC = v2.Resource(name=REAL_TOPIC)


@dataclass(frozen=True)
class GatewayPlan:
    """What is measured."""

    processes: int = 1
    seconds: float = 15.0
    rate: int = 200
    """Transactions a second, while the time of answers is measured."""
    streams: int = 10_000
    """Clients that are connected and do nothing."""


@dataclass(frozen=True)
class GatewayResult:
    """Times in ms; a transaction is a half message and its commit, each acknowledged by Kafka."""

    per_second: float
    gateway_cpu_us: float
    """A transaction, at full speed."""
    broker_cpu_us: float
    load_cpu_us: float
    half_p50_ms: float
    half_p99_ms: float
    streams: int
    streams_mib: float
    """Memory of the gateway's processes with so many streams, and what they had before."""


class _Step(NamedTuple):
    """What the load is to do."""

    seconds: float
    at_once: int = _AT_ONCE
    rate: int = 0
    """A second; 0: as fast as it goes."""


def measure_gateway(plan: GatewayPlan, tell: Tell) -> GatewayResult:
    """Measure a gateway on a Kafka of its own, without a job."""
    with workplace() as place, _gateway(place.bootstrap_servers, plan.processes) as (port, process):
        with party(_load, port) as load:
            tell("Warming up ...")
            _ordered(load, _Step(_WARM_UP_SECONDS))
            tell(f"As fast as it goes, {_AT_ONCE} at once ...")
            before = _cpu(process.pid), _cpu(place.broker or 0)
            done, seconds, load_cpu, _ = _ordered(load, _Step(plan.seconds))
            used = [now - then for now, then in zip((_cpu(process.pid), _cpu(place.broker or 0)), before, strict=True)]
            tell(f"{plan.rate} a second ...")
            times = _ordered(load, _Step(plan.seconds, 1_000, plan.rate))[3]
        tell(f"{plan.streams:,} streams ...")
        with party(_streams, port, plan.streams) as held:
            if not held.poll(600) or held.recv() != plan.streams:
                raise CheckbackError("Not all streams could be opened.")
            memory = sum(psutil.Process(one).memory_info().rss for one in tree_of(process.pid)) / 2**20
    p50, p99 = (float(np.percentile(times, at)) * 1_000 for at in (50, 99))
    each = [round(one / done * 1e6, 1) for one in (*used, load_cpu)]
    figures = (round(done / seconds, 1), each[0], each[1], each[2], round(p50, 2), round(p99, 2))
    return GatewayResult(*figures, plan.streams, round(memory, 1))


@contextmanager
def _gateway(servers: str, processes: int) -> Iterator[tuple[int, "subprocess.Popen[bytes]"]]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    settings = {
        "CHECKBACK_KAFKA__BOOTSTRAP_SERVERS": servers,
        "CHECKBACK_GATEWAY__PORT": str(port),
        "CHECKBACK_GATEWAY__HTTP_PORT": "0",
        "CHECKBACK_GATEWAY__SECRETS": '["a secret of nobody for a measurement"]',
    }
    command = [sys.executable, "-m", "checkback", "gateway", "--processes", str(processes)]
    process = subprocess.Popen(command, env={**os.environ, **settings}, stdout=subprocess.DEVNULL)  # noqa: S603  (our own)
    try:
        asyncio.run(_answers(port))
        yield port, process
    finally:
        process.terminate()
        process.wait()


async def _answers(port: int) -> None:
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        async with asyncio.timeout(_START_SECONDS):
            await channel.channel_ready()


def _cpu(pid: int) -> float:
    """Seconds of a process and all that it has started."""
    times = [psutil.Process(one).cpu_times() for one in tree_of(pid)] if pid else []
    return float(sum(one.user + one.system for one in times))


def _ordered(load: Connection, step: _Step) -> Any:
    load.send(step)
    if not load.poll(10 * step.seconds + _START_SECONDS):
        raise CheckbackError("The load does not come to its end.")
    return load.recv()


def _load(port: int, orders: Connection) -> None:
    asyncio.run(_follow(port, orders))


async def _follow(port: int, orders: Connection) -> None:
    # several connections, so that several processes of a gateway get some
    channels = [
        grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=[("grpc.use_local_subchannel_pool", 1)])
        for _ in range(8)
    ]
    senders = [_Transactions(channel, number) for number, channel in enumerate(channels)]
    while True:
        step: _Step = await asyncio.to_thread(orders.recv)
        cpu, began, times = time.process_time(), time.monotonic(), list[float]()
        until = began + step.seconds
        paced = _paced if step.rate else _driven
        done = await paced(senders, step, until, times)
        orders.send((done, time.monotonic() - began, time.process_time() - cpu, times))


class _Transactions:
    """Sends through one connection."""

    def __init__(self, channel: Any, number: int) -> None:
        self._send = _method(channel, "SendMessage", calls.SendMessageRequest, calls.SendMessageResponse)
        self._end = _method(channel, "EndTransaction", calls.EndTransactionRequest, calls.EndTransactionResponse)
        self._metadata = [("x-mq-client-id", f"load-{os.getpid()}-{number}")]
        self._sent = 0

    async def one(self, times: list[float]) -> None:
        self._sent += 1
        system = v2.SystemProperties(message_type=v2.TRANSACTION, message_id=f"M{self._sent}", keys=["k"], tag="paid")
        message = v2.Message(topic=_TOPIC, body=_BODY, system_properties=system, user_properties={"a": "b"})
        began = time.perf_counter()
        sent = await self._send(calls.SendMessageRequest(messages=[message]), metadata=self._metadata)
        times.append(time.perf_counter() - began)
        ticket = sent.entries[0].transaction_id
        request = calls.EndTransactionRequest(topic=_TOPIC, transaction_id=ticket, resolution=v2.COMMIT)
        ended = await self._end(request, metadata=self._metadata)
        if (sent.status.code, ended.status.code) != (v2.OK, v2.OK):
            raise CheckbackError(f"The gateway has refused a transaction: {sent.status} {ended.status}")


async def _driven(senders: list[_Transactions], step: _Step, until: float, times: list[float]) -> int:
    async def one(sender: _Transactions) -> int:
        done = 0
        while time.monotonic() < until:
            await sender.one(times)
            done += 1
        return done

    return sum(await asyncio.gather(*(one(senders[number % len(senders)]) for number in range(step.at_once))))


async def _paced(senders: list[_Transactions], step: _Step, until: float, times: list[float]) -> int:
    """Each at its time, however long those before it take."""
    begun: list[asyncio.Task[None]] = []
    start = time.monotonic()
    while (now := time.monotonic()) < until:
        due = start + len(begun) / step.rate
        if due > now:
            await asyncio.sleep(due - now)
        begun.append(asyncio.ensure_future(senders[len(begun) % len(senders)].one(times)))
    await asyncio.gather(*begun)
    return len(begun)


def _method(channel: Any, name: str, request: Any, response: Any) -> Any:
    return channel.unary_unary(
        _SERVICE + name, request_serializer=request.SerializeToString, response_deserializer=response.FromString
    )


def _streams(port: int, number: int, told: Connection) -> None:
    asyncio.run(_hold(port, number, told))


async def _hold(port: int, number: int, told: Connection) -> None:
    """So many clients with a connection and a stream each, as RocketMQ's have; until the process is ended."""
    held: list[Any] = []

    async def one(client: int) -> None:
        options = [("grpc.use_local_subchannel_pool", 1)]
        channel: Any = grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=options)
        method = channel.stream_stream(
            f"{_SERVICE}Telemetry",
            request_serializer=calls.TelemetryCommand.SerializeToString,
            response_deserializer=calls.TelemetryCommand.FromString,
        )
        stream = method(metadata=[("x-mq-client-id", f"idle-{client}")])
        settings = v2.Settings(publishing=v2.Publishing(topics=[_TOPIC]), user_agent=v2.UA(language=v2.JAVA))
        await stream.write(calls.TelemetryCommand(settings=settings))
        await stream.read()
        held.append((channel, stream))

    for first in range(0, number, _STREAMS_AT_ONCE):
        await asyncio.gather(*(one(client) for client in range(first, min(number, first + _STREAMS_AT_ONCE))))
    told.send(len(held))
    await asyncio.Event().wait()
