"""The gRPC server: calls that are there, and those that are not, by the names in RocketMQ's interface."""

import asyncio
import logging
import re
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Mapping
from functools import partial
from time import perf_counter
from typing import Any

import grpc
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass

from gateway.load import converted
from gateway.refusals import GatewayError, RefusalReason
from gateway.rocketmq.messages import refuse_many_fields
from gateway.rocketmq.service import MessagingService, status_of
from gateway.rocketmq.v2 import service_pb2

_LOGGER = logging.getLogger(__name__)
_SERVICE = service_pb2.DESCRIPTOR.services_by_name["MessagingService"]
_BESIDE_BODY_BYTES = 1 << 20
_SHORT_BYTES = 64 << 10
"""Of a call, or a command, without messages."""
_END = grpc.aio.EOF  # type: ignore[attr-defined]  # grpc-stubs do not have it
_WAITING_BYTES = 16 << 10
"""What a call counts for until it is received: gRPC keeps up to 64 KiB of each."""
_UNFINISHED_BYTES = 40 << 20
"""Of messages of an account that are received at the same time: gRPC keeps up to a whole message of each."""
_UNFINISHED_SECONDS = 10.0
_OPTIONS = (
    ("grpc.server_handshake_timeout_ms", 10_000),
    ("grpc.max_connection_idle_ms", 300_000),  # without any call
    ("grpc.http2.bdp_probe", 0),  # it opens the windows of all streams, whether they are read or not
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


class _Receiving:
    """Messages of an account that gRPC may hold a part of, while it waits for their end."""

    def __init__(self, most_bytes: int) -> None:
        most = max(1, _UNFINISHED_BYTES // most_bytes)
        self.requests = asyncio.Semaphore(most)
        self.first_commands = asyncio.Semaphore(most)
        self.further_commands = asyncio.Semaphore(2 * most)


async def started(  # noqa: PLR0913  (settings of a server)
    service: MessagingService,
    most_bytes: int,
    host: str,
    port: int | None,
    tls_port: int | None = None,
    certificate: tuple[bytes, bytes] = (b"", b""),
    *,
    connections: int = 1_000,
    called: Called = lambda *_: None,
    shared: bool = False,
) -> tuple[grpc.aio.Server, int, int]:
    """A server that answers, its port, and that for TLS; 0: there is none.

    ``port``: without TLS; 0: a free one, None: none; ``tls_port``: with it, by a ``certificate`` and its key (PEM).
    ``connections``: at most, at each port, since a process without files could not answer its probes. ``shared``:
    several processes listen at the same port.

    Raises:
        OSError: a port cannot be had.
    """
    most_bytes += _BESIDE_BODY_BYTES
    limits = (
        ("grpc.max_receive_message_length", most_bytes),
        ("grpc.max_allowed_incoming_connections", connections),
        ("grpc.so_reuseport", shared),
    )
    server = grpc.aio.server(options=(*_OPTIONS, *limits))
    receiving = defaultdict[str, _Receiving](lambda: _Receiving(most_bytes))
    handlers = {method.name: _handler(method, service, called, receiving) for method in _SERVICE.methods}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(_SERVICE.full_name, handlers),))
    bound = bound_tls = 0
    if port is not None:
        bound = _bound(server.add_insecure_port, host, port)
    if tls_port is not None:
        credentials = grpc.ssl_server_credentials([certificate[::-1]])
        bound_tls = _bound(server.add_secure_port, host, tls_port, credentials)
    await server.start()
    return server, bound, bound_tls


def _bound(add: Any, host: str, port: int, *credentials: Any) -> int:
    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    try:
        return int(add(address, *credentials))
    except RuntimeError as error:
        raise OSError(f"{address} cannot be listened at: {error}") from None


def _handler(
    method: MethodDescriptor, service: MessagingService, called: Called, receiving: Mapping[str, _Receiving]
) -> Any:
    """Of one call; RocketMQ's own status for those that a gateway does not have.

    All of them take streams, for gRPC to keep no request of a client that has not shown who it is.
    """
    request, response = GetMessageClass(method.input_type), GetMessageClass(method.output_type)
    codec: dict[str, Any] = {"response_serializer": response.SerializeToString}  # requests are counted first
    act = getattr(service, _in_small_letters(method.name), None)
    if method.client_streaming:

        async def both(_: Any, context: Any) -> AsyncIterator[Any]:
            metadata = metadata_of(context)
            try:
                commands = _commands(context, request, receiving[service.account_of(metadata)])
                async for answer in act(commands, metadata):  # type: ignore[misc]  # telemetry, and no other
                    yield answer
            except GatewayError as error:
                yield response(status=status_of(error))

        return grpc.stream_stream_rpc_method_handler(both, **codec)
    if act is None:
        return _absent(method, response, codec)

    async def one(_: Any, context: Any) -> Any:
        began = perf_counter()
        try:
            metadata = metadata_of(context)
            account = service.account_of(metadata)
            with service.accounts.in_flight.of(account) as take:
                raw = await _received(context, receiving[account], take)
                answer = await act(await _converted(request, raw), metadata)
        except GatewayError as error:
            answer = response(status=status_of(error))
        except Exception:
            _LOGGER.exception("%s failed", method.name)
            raise
        called("grpc", method.name, answer.status.code, perf_counter() - began)
        return answer

    return grpc.stream_unary_rpc_method_handler(one, **codec)


async def _received(context: Any, receiving: _Receiving, take: Callable[[int], None]) -> bytes:
    take(_WAITING_BYTES)
    async with receiving.requests:
        try:
            async with asyncio.timeout(_UNFINISHED_SECONDS):
                raw = await context.read()
        except TimeoutError:
            problem = f"The request did not come to its end within {_UNFINISHED_SECONDS:g} s."
            raise GatewayError(RefusalReason.REQUEST, problem) from None
    if raw is _END:
        raise GatewayError(RefusalReason.REQUEST, "The call has no request.")
    take(len(raw) - _WAITING_BYTES)
    return bytes(raw)


async def _converted(request: Any, raw: bytes) -> Any:
    if len(raw) > _SHORT_BYTES and request is not service_pb2.SendMessageRequest:
        raise GatewayError(RefusalReason.TOO_LARGE, f"This call takes at most {_SHORT_BYTES:,} bytes.")
    try:
        return await converted(len(raw), partial(_read, request, raw))
    except DecodeError as error:
        raise GatewayError(RefusalReason.REQUEST, f"The request is not in the form of its protocol: {error}.") from None


def _read(request: Any, raw: bytes) -> Any:
    if request is service_pb2.SendMessageRequest:
        refuse_many_fields(raw)
    return request.FromString(raw)


async def _commands(context: Any, request: Any, receiving: _Receiving) -> AsyncIterator[Any]:
    """Commands up to one that is longer than what clients send of themselves.

    Of most streams of a large account it reads the first one alone: what else clients send, they repeat in calls.
    """
    reading: asyncio.Future[Any] | None = None
    try:
        async with receiving.first_commands:
            reading = asyncio.ensure_future(context.read())
            await asyncio.wait((reading,), timeout=_UNFINISHED_SECONDS)
        if receiving.further_commands.locked():
            if reading.done() and _is_command(await reading):
                yield request.FromString(await reading)
                await asyncio.Event().wait()  # until the stream ends
            return
        async with receiving.further_commands:
            while _is_command(await reading):  # Python's client may send its first one after minutes
                yield request.FromString(await reading)
                reading = asyncio.ensure_future(context.read())
    finally:
        if reading is not None:
            reading.cancel()


def _is_command(raw: Any) -> bool:
    return raw is not _END and len(raw) <= _SHORT_BYTES


def _absent(method: MethodDescriptor, response: Any, codec: dict[str, Any]) -> Any:
    refusal = GatewayError(
        RefusalReason.NOT_THERE, f"{method.name} is not here: see docs/gateway.md; consume from Kafka."
    )
    told = False

    async def stream(_requests: Any, _context: Any) -> AsyncIterator[Any]:
        nonlocal told
        if not told:
            told = True
            _LOGGER.warning("A client calls %s, which a gateway does not have: it is told so.", method.name)
        yield response(status=status_of(refusal))

    return grpc.stream_stream_rpc_method_handler(stream, **codec)


def metadata_of(context: Any) -> dict[str, str]:
    """A call's headers, their names in small letters; binary ones are left out."""
    return {name: value for name, value in context.invocation_metadata() if isinstance(value, str)}


def _in_small_letters(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()
