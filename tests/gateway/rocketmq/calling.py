"""A gateway's gRPC service on a free port, without Kafka, and a client that calls it as RocketMQ's do."""

import asyncio
import hashlib
import hmac
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc

from gateway.rocketmq.server import started
from gateway.rocketmq.service import MessagingService
from gateway.rocketmq.streams import ClientStreams
from gateway.rocketmq.v2 import definition_pb2 as v2
from gateway.rocketmq.v2 import service_pb2 as calls
from tests.gateway.scene import Scene

PLACE = "/apache.rocketmq.v2.MessagingService/"
TOPIC = v2.Resource(name="orders")
AT = v2.Endpoints(scheme=v2.IPv4, addresses=[v2.Address(host="127.0.0.1", port=1)])
TIME = "20231114T221320Z"  # the scene's


class Caller:
    """One of RocketMQ's clients, as the gateway sees it."""

    def __init__(self, channel: Any, client_id: str = "client-1", key: str = "", secret: str = "") -> None:
        self._channel = channel
        signature = hmac.new(secret.encode(), TIME.encode(), hashlib.sha1).hexdigest()
        shown = f"MQv2-HMAC-SHA1 Credential={key}, SignedHeaders=x-mq-date-time, Signature={signature}"
        self.metadata = [("x-mq-client-id", client_id), ("x-mq-date-time", TIME)]
        if key:
            self.metadata.append(("authorization", shown))

    async def call(self, name: str, request: Any, response: Any) -> Any:
        method = self._channel.unary_unary(
            PLACE + name,
            request_serializer=type(request).SerializeToString,
            response_deserializer=response.FromString,
        )
        return await method(request, metadata=self.metadata, timeout=10)

    async def route(self, topic: v2.Resource = TOPIC) -> Any:
        return await self.call(
            "QueryRoute", calls.QueryRouteRequest(topic=topic, endpoints=AT), calls.QueryRouteResponse
        )

    async def send(self, *messages: v2.Message) -> Any:
        return await self.call("SendMessage", calls.SendMessageRequest(messages=messages), calls.SendMessageResponse)

    async def end(self, ticket: str, resolution: v2.TransactionResolution = v2.COMMIT) -> Any:
        request = calls.EndTransactionRequest(topic=TOPIC, transaction_id=ticket, resolution=resolution)
        return await self.call("EndTransaction", request, calls.EndTransactionResponse)

    async def beat(self) -> int:
        request = calls.HeartbeatRequest(client_type=v2.PRODUCER)
        return int((await self.call("Heartbeat", request, calls.HeartbeatResponse)).status.code)

    def stream(self) -> Any:
        method = self._channel.stream_stream(
            PLACE + "Telemetry",
            request_serializer=calls.TelemetryCommand.SerializeToString,
            response_deserializer=calls.TelemetryCommand.FromString,
        )
        return method(metadata=self.metadata)

    async def settled(self, language: v2.Language = v2.JAVA, topic: v2.Resource = TOPIC) -> Any:
        """A stream whose settings the gateway has answered."""
        stream = self.stream()
        settings = v2.Settings(publishing=v2.Publishing(topics=[topic]), user_agent=v2.UA(language=language))
        await stream.write(calls.TelemetryCommand(settings=settings))
        return stream, await stream.read()


def half(body: bytes = b"body", message_id: str = "M1", topic: v2.Resource = TOPIC) -> v2.Message:
    system = v2.SystemProperties(message_type=v2.TRANSACTION, message_id=message_id)
    return v2.Message(topic=topic, body=body, system_properties=system)


class Serving:
    """What is there while it serves."""

    def __init__(self, scene: Scene, service: MessagingService, streams: ClientStreams, port: int) -> None:
        self.scene, self.service, self.streams, self.port = scene, service, streams, port
        self.channel = grpc.aio.insecure_channel(f"127.0.0.1:{port}")

    def caller(self, client_id: str = "client-1", key: str = "", secret: str = "") -> Caller:
        return Caller(self.channel, client_id, key, secret)


@asynccontextmanager
async def serving(
    scene: Scene | None = None, groups: dict[str, str] | None = None, connections: int = 100
) -> AsyncIterator[Serving]:
    scene = scene or Scene()
    streams = ClientStreams(scene.asking, scene.accounts.may_act)
    common = (scene.transactions, scene.accounts, scene.seal.of_check, 4 << 20)
    service = MessagingService(*common, scene.log, streams, groups or {})
    server, port, _ = await started(service, 4 << 20, "127.0.0.1", 0, connections=connections)
    made = Serving(scene, service, streams, port)
    try:
        yield made
    finally:
        streams.end_all()
        await made.channel.close(None)
        await server.stop(0)


async def until(condition: Any) -> None:
    """Wait for what another task is about to do."""
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110  (of several kinds, and none tells)
            await asyncio.sleep(0.005)
