"""The gRPC server: calls that are there, and those that are not, by the names in RocketMQ's interface."""

import logging
import re
from collections.abc import AsyncIterator, Callable
from functools import partial
from time import perf_counter
from typing import Any, NamedTuple

import grpc
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass

from gateway.load import converted
from gateway.refusals import GatewayError, RefusalReason
from gateway.rocketmq.service import MessagingService, status_of
from gateway.rocketmq.v2 import service_pb2

_LOGGER = logging.getLogger(__name__)
_SERVICE = service_pb2.DESCRIPTOR.services_by_name["MessagingService"]
_BESIDE_BODY_BYTES = 1 << 20
_SHORT_BYTES = 64 << 10
"""Of a call, or a command, without messages."""
_OPTIONS = (
    # a client whose machine is gone is not asked for long
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
    ("grpc.http2.max_ping_strikes", 0),
    # Of 3,000 calls at once on a new connection a quarter was cancelled without it. What is above it, begun before
    # the client has heard of it, is refused; so it is no lower: with 128 it was 7 of 200.
    ("grpc.max_concurrent_streams", 1_000),
)


Called = Callable[[str, str, int, float], None]
"""Told of each call: protocol, call, code, seconds."""


class Listening(NamedTuple):
    """Where it listens."""

    host: str
    port: int | None
    """Without TLS; 0: a free one, None: none."""
    tls_port: int | None = None
    """Likewise, with it."""
    certificate: bytes = b""
    """With its key: PEM."""
    key: bytes = b""
    called: Called = lambda *_: None
    shared: bool = False
    """Whether several processes listen at the same port."""


async def started(service: MessagingService, where: Listening, most_bytes: int) -> tuple[grpc.aio.Server, int, int]:
    """A server that answers, its port, and that for TLS; 0: there is none.

    Raises:
        OSError: a port cannot be had.
    """
    limits = (("grpc.max_receive_message_length", most_bytes + _BESIDE_BODY_BYTES), ("grpc.so_reuseport", where.shared))
    server = grpc.aio.server(options=(*_OPTIONS, *limits))
    handlers = {method.name: _handler(method, service, where.called) for method in _SERVICE.methods}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(_SERVICE.full_name, handlers),))
    port = tls_port = 0
    if where.port is not None:
        port = _bound(server.add_insecure_port, where.host, where.port)
    if where.tls_port is not None:
        credentials = grpc.ssl_server_credentials([(where.key, where.certificate)])
        tls_port = _bound(server.add_secure_port, where.host, where.tls_port, credentials)
    await server.start()
    return server, port, tls_port


def _bound(add: Any, host: str, port: int, *credentials: Any) -> int:
    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    try:
        return int(add(address, *credentials))
    except RuntimeError as error:
        raise OSError(f"{address} cannot be listened at: {error}") from None


def _handler(method: MethodDescriptor, service: MessagingService, called: Called) -> Any:
    """Of one call; RocketMQ's own status for those that a gateway does not have."""
    request, response = GetMessageClass(method.input_type), GetMessageClass(method.output_type)
    codec: dict[str, Any] = {"response_serializer": response.SerializeToString}  # requests are counted first
    act = getattr(service, _in_small_letters(method.name), None)
    if method.client_streaming:

        async def both(requests: AsyncIterator[Any], context: Any) -> AsyncIterator[Any]:
            commands = _commands(requests, request)
            async for one in act(commands, metadata_of(context)):  # type: ignore[misc]  # telemetry, and no other
                yield one

        return grpc.stream_stream_rpc_method_handler(both, **codec)
    if act is None:
        return _absent(method, response, codec)

    async def one(raw: bytes, context: Any) -> Any:
        began = perf_counter()
        try:
            metadata = metadata_of(context)
            with service.in_flight(metadata) as take:
                take(len(raw))
                said = await act(await _converted(request, raw), metadata)
        except GatewayError as error:
            said = response(status=status_of(error))
        except Exception:
            _LOGGER.exception("%s failed", method.name)
            raise
        called("grpc", method.name, said.status.code, perf_counter() - began)
        return said

    return grpc.unary_unary_rpc_method_handler(one, **codec)


async def _converted(request: Any, raw: bytes) -> Any:
    if len(raw) > _SHORT_BYTES and request is not service_pb2.SendMessageRequest:
        raise GatewayError(RefusalReason.TOO_LARGE, f"This call takes at most {_SHORT_BYTES:,} bytes.")
    try:
        return await converted(len(raw), partial(request.FromString, raw))
    except DecodeError as error:
        raise GatewayError(RefusalReason.REQUEST, f"The request is not in the form of its protocol: {error}.") from None


async def _commands(requests: AsyncIterator[bytes], request: Any) -> AsyncIterator[Any]:
    """Up to one that is longer than what clients send of themselves."""
    async for raw in requests:
        if len(raw) > _SHORT_BYTES:
            return
        yield request.FromString(raw)


def _absent(method: MethodDescriptor, response: Any, codec: dict[str, Any]) -> Any:
    refusal = GatewayError(
        RefusalReason.NOT_THERE, f"{method.name} is not here: see docs/gateway.md; consume from Kafka."
    )
    told = False

    def answer() -> Any:
        nonlocal told
        if not told:
            told = True
            _LOGGER.warning("A client calls %s, which a gateway does not have: it is told so.", method.name)
        return response(status=status_of(refusal))

    async def unary(_request: Any, _context: Any) -> Any:
        return answer()

    async def stream(_request: Any, _context: Any) -> AsyncIterator[Any]:
        yield answer()

    if method.server_streaming:
        return grpc.unary_stream_rpc_method_handler(stream, **codec)
    return grpc.unary_unary_rpc_method_handler(unary, **codec)


def metadata_of(context: Any) -> dict[str, str]:
    """A call's headers, their names in small letters; binary ones are left out."""
    return {name: value for name, value in context.invocation_metadata() if isinstance(value, str)}


def _in_small_letters(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()
