"""What RocketMQ's clients call, as far as producers need it: see ``docs/gateway.md``."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from google.protobuf.duration_pb2 import Duration

from access.credentials import Caller
from checkback.listener import LocalTransactionState
from checkback.wire.checks import CheckRequest
from gateway.accounts import Accounts
from gateway.refusals import GatewayError, RefusalReason
from gateway.rocketmq.messages import Incoming, incoming, topic_of
from gateway.rocketmq.streams import ClientStream, ClientStreams
from gateway.rocketmq.v2 import definition_pb2 as v2
from gateway.rocketmq.v2 import service_pb2 as calls
from gateway.transactions import ActingAs, GatewayTransactions, Places

_LOGGER = logging.getLogger(__name__)
_STATES = {
    v2.COMMIT: LocalTransactionState.COMMIT,
    v2.ROLLBACK: LocalTransactionState.ROLLBACK,
    v2.TRANSACTION_RESOLUTION_UNSPECIFIED: LocalTransactionState.UNKNOWN,
}
_MESSAGE_TYPES = (v2.NORMAL, v2.FIFO, v2.DELAY, v2.TRANSACTION)
_OK = v2.Status(code=v2.OK, message="OK")
_ATTEMPTS = 3
_MOST_UNPACKED = 2
"""Times ``most_bytes``, of one call."""
_STREAM_BYTES = 64 << 10
"""What gRPC keeps of a stream that is not read."""
_MOST_TOPICS = 100
"""Of a client's settings: for others it asks routes, or sends to them."""
_MOST_CLIENT_ID = 255
"""Characters."""
_UNKNOWN_CLIENT = v2.Status(code=v2.UNRECOGNIZED_CLIENT_TYPE, message="This gateway has no stream of this client's.")


class Call(NamedTuple):
    """Who calls."""

    caller: Caller
    client_id: str


class _Room:
    """Bytes that the messages of one call may still have, unpacked."""

    def __init__(self, left: int) -> None:
        self.left = left


@dataclass
class MessagingService:
    """``apache.rocketmq.v2.MessagingService``. Its methods are named as the calls, in small letters.

    Each takes a request and the call's metadata, and gives a response; what is refused has RocketMQ's own status.
    """

    transactions: GatewayTransactions
    accounts: Accounts
    seal: Callable[[CheckRequest], str]
    most_bytes: int
    """Of one message's value."""
    places: Places
    streams: ClientStreams
    groups: Mapping[str, str]
    """Producer groups of access keys; of others the group is the topic, as in RocketMQ's proxy."""

    def account_of(self, metadata: Mapping[str, str]) -> str:
        """The account that calls. Raises GatewayError if the headers do not show which it is."""
        return self._call(metadata).caller.account

    async def query_route(self, request: calls.QueryRouteRequest, metadata: Mapping[str, str]) -> Any:
        """Where to send to a topic: here."""
        call = self._call(metadata)
        topic, group = topic_of(request.topic), self._group(call, request.topic)
        self.accounts.refuse_topic(call.caller, group, topic)  # of others' nobody learns whether they are there
        await self.places.look(topic)
        self.streams.sends_as(*call, [group])
        at = _respelled(request.endpoints) if self.streams.respells(*call) else request.endpoints
        # one queue: these clients need not know what lies where in Kafka
        queue = v2.MessageQueue(
            topic=request.topic,
            id=0,
            permission=v2.READ_WRITE,
            broker=v2.Broker(name="checkback", id=0, endpoints=at),
            accept_message_types=_MESSAGE_TYPES,
        )
        return calls.QueryRouteResponse(status=_OK, message_queues=[queue])

    async def heartbeat(self, _request: calls.HeartbeatRequest, metadata: Mapping[str, str]) -> Any:
        """A client is there. One whose stream is not, as after a restart of the gateway, is told to open it again."""
        call = self._call(metadata)
        there = self.streams.has(*call)
        return calls.HeartbeatResponse(status=_OK if there else _UNKNOWN_CLIENT)

    async def send_message(self, request: calls.SendMessageRequest, metadata: Mapping[str, str]) -> Any:
        """Messages, each with a status of its own; the first that is refused gives the status of all."""
        call = self._call(metadata)
        if not request.messages:
            raise GatewayError(RefusalReason.REQUEST, "There is no message in it.")
        room = _Room(_MOST_UNPACKED * self.most_bytes)
        if len(request.messages) == 1:  # as most have: a task less
            entries = [await self._entry(call, request.messages[0], room)]
        else:  # all begun in their order, so that FIFO ones are written in it
            entries = await asyncio.gather(*(self._entry(call, message, room) for message in request.messages))
        refused = [entry.status for entry in entries if entry.status.code != v2.OK]
        return calls.SendMessageResponse(status=refused[0] if refused else _OK, entries=entries)

    async def _entry(self, call: Call, sent: v2.Message, room: "_Room") -> calls.SendResultEntry:
        try:
            read = incoming(sent, call.client_id, min(self.most_bytes, room.left))
            room.left -= len(read.message.value or b"")
            group = self._group(call, sent.topic)
            ticket = await self._sent(ActingAs(call.caller, group), read, call.client_id)
        except GatewayError as error:
            return calls.SendResultEntry(status=status_of(error), message_id=sent.system_properties.message_id)
        except Exception:  # the others' entries have to reach their client
            _LOGGER.exception("A message could not be sent")
            failed = v2.Status(code=v2.INTERNAL_SERVER_ERROR, message="The gateway failed: its log says why.")
            return calls.SendResultEntry(status=failed, message_id=sent.system_properties.message_id)
        if ticket:
            self.streams.sends_as(*call, [group])
        return calls.SendResultEntry(status=_OK, message_id=read.message_id, transaction_id=ticket)

    async def _sent(self, sender: ActingAs, read: Incoming, client_id: str) -> str:
        """The transaction id; empty where there is no transaction."""
        once = f"{client_id}\0{read.message_id}" if read.message_id else ""
        do = self.transactions
        if read.kind == v2.TRANSACTION:
            return await do.begin(sender, [read.message], read.options, once)
        await do.send(sender, read.message, once, read.options.deliver_at_ms)
        return ""

    async def end_transaction(self, request: calls.EndTransactionRequest, metadata: Mapping[str, str]) -> Any:
        """A producer's own end, or its answer to a check: which, the transaction says."""
        call = self._call(metadata)
        state = _STATES.get(request.resolution)
        if state is None:
            raise GatewayError(RefusalReason.REQUEST, f"{request.resolution} is neither COMMIT nor ROLLBACK.")
        await self.transactions.end(call.caller, request.transaction_id, state)
        return calls.EndTransactionResponse(status=_OK)

    async def notify_client_termination(
        self, _request: calls.NotifyClientTerminationRequest, metadata: Mapping[str, str]
    ) -> Any:
        """A client ends."""
        call = self._call(metadata)
        self.streams.forget(*call)
        return calls.NotifyClientTerminationResponse(status=_OK)

    async def telemetry(
        self, requests: AsyncIterator[calls.TelemetryCommand], metadata: Mapping[str, str]
    ) -> AsyncIterator[calls.TelemetryCommand]:
        """The stream on which a client says what it is, and is asked about its transactions.

        Raises:
            GatewayError: the headers do not show who calls, or its account has too many streams.
        """
        call = self._call(metadata)
        stream = ClientStream(call.client_id, call.caller, self.seal)
        with self.accounts.streams.of(call.caller.account) as take:
            take(_STREAM_BYTES)
            self.streams.open(stream)
            reading = asyncio.ensure_future(self._read(stream, call, requests))
            try:
                while (command := await stream.next()) is not None:
                    yield command
            finally:
                self.streams.close(stream)
                reading.cancel()

    async def _read(self, stream: ClientStream, call: Call, requests: AsyncIterator[calls.TelemetryCommand]) -> None:
        try:
            async for command in requests:
                if command.WhichOneof("command") == "settings":
                    stream.language = command.settings.user_agent.language
                    topics = command.settings.publishing.topics[:_MOST_TOPICS]
                    groups = [self._group(call, topic) for topic in topics if _lawful(topic)]
                    self.streams.sends_as(*call, groups)
                    stream.tell(calls.TelemetryCommand(status=_OK, settings=self._settings(command.settings)))
        except asyncio.CancelledError:
            pass
        except Exception as error:  # noqa: BLE001  (what was no command: whoever sends that is gone for us)
            _LOGGER.debug("The stream of client %.80s could not be read: %r", call.client_id, error)
        finally:
            stream.end()  # it has nothing more to say

    def _settings(self, given: v2.Settings) -> v2.Settings:
        """What a client goes by: its own, with what it does not start without."""
        made = v2.Settings()
        made.CopyFrom(given)
        if not given.backoff_policy.max_attempts:
            made.backoff_policy.max_attempts = _ATTEMPTS
        made.backoff_policy.exponential_backoff.CopyFrom(
            v2.ExponentialBackoff(initial=Duration(nanos=10_000_000), max=Duration(seconds=1), multiplier=2)
        )
        made.publishing.max_body_size = self.most_bytes
        made.publishing.validate_message_type = True
        made.metric.on = False
        return made

    def _call(self, metadata: Mapping[str, str]) -> Call:
        caller = self.accounts.of_rocketmq(metadata)
        client_id = metadata.get("x-mq-client-id", "")
        if not 0 < len(client_id) <= _MOST_CLIENT_ID:
            raise GatewayError(
                RefusalReason.REQUEST, f"The header x-mq-client-id is missing, or longer than {_MOST_CLIENT_ID}."
            )
        return Call(caller, client_id)

    def _group(self, call: Call, topic: v2.Resource) -> str:
        group = self.groups.get(call.caller.key_id)
        if group is not None:
            return group
        return f"{topic.resource_namespace}%{topic.name}" if topic.resource_namespace else topic.name


def _lawful(topic: v2.Resource) -> bool:
    try:
        topic_of(topic)
    except GatewayError:
        return False
    return True


def _respelled(endpoints: v2.Endpoints) -> v2.Endpoints:
    """Another spelling of the same address."""
    if endpoints.scheme == v2.IPv4:
        return v2.Endpoints(scheme=v2.DOMAIN_NAME, addresses=endpoints.addresses)
    # names are the same in capitals: RFC 4343
    swapped = [v2.Address(host=address.host.swapcase(), port=address.port) for address in endpoints.addresses]
    return v2.Endpoints(scheme=endpoints.scheme, addresses=swapped)


def status_of(error: GatewayError) -> v2.Status:
    """As RocketMQ's clients read it."""
    return v2.Status(code=error.refusal.value.code, message=str(error))  # type: ignore[arg-type]  # a number of the enum
