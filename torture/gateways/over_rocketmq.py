"""A client that speaks RocketMQ's gRPC as Java's does: three attempts of 3 s, under one message id."""

import queue
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import grpc

from checkback import Message
from checkback.listener import LocalTransactionState
from gateway.asking import CLIENT_HEADER
from gateway.rocketmq.messages import KEYS_HEADER, MESSAGE_ID_HEADER
from gateway.rocketmq.v2 import definition_pb2 as v2
from gateway.rocketmq.v2 import service_pb2 as calls
from torture.effects.strike import Watch
from torture.gateways.orders import NAME, OrderBooks, Seller
from torture.gateways.schedule import Kind
from torture.gateways.sending import End, GatewayProducer, NoAnswerError, RefusedError

_SERVICE = "/apache.rocketmq.v2.MessagingService/"
_SECONDS = 3.0
_PAUSE_SECONDS = 1.0
_OPTIONS = (("grpc.initial_reconnect_backoff_ms", 200), ("grpc.max_reconnect_backoff_ms", 1_000))
_ENDS = {End.COMMIT: v2.COMMIT, End.ROLLBACK: v2.ROLLBACK, End.UNKNOWN: v2.TRANSACTION_RESOLUTION_UNSPECIFIED}
_NOBODY_KNOWS = frozenset({v2.INTERNAL_SERVER_ERROR, v2.INTERNAL_ERROR, v2.TOO_MANY_REQUESTS})


class RocketGateway(NamedTuple):
    """One gateway as a client sees it."""

    channel: Any
    client_id: str

    @classmethod
    def at(cls, port: int, client_id: str) -> "RocketGateway":
        """Connects when it is first asked."""
        return cls(grpc.insecure_channel(f"127.0.0.1:{port}", _OPTIONS), client_id)

    @property
    def metadata(self) -> list[tuple[str, str]]:
        """Of each call."""
        return [("x-mq-client-id", self.client_id)]

    def call(self, name: str, request: Any, response: Any) -> Any:
        """Raises NoAnswerError when it does not answer in time."""
        method = self.channel.unary_unary(
            _SERVICE + name,
            request_serializer=type(request).SerializeToString,
            response_deserializer=response.FromString,
        )
        try:
            return method(request, metadata=self.metadata, timeout=_SECONDS)
        except grpc.RpcError as error:
            raise NoAnswerError(f"{name}: {error.code()}") from error

    def end(self, topic: str, ticket: str, end: End) -> None:
        """End a transaction; a forged one is refused. Raises as :meth:`call`."""
        request = calls.EndTransactionRequest(
            topic=v2.Resource(name=topic), transaction_id=ticket, resolution=_ENDS[end]
        )
        status = self.call("EndTransaction", request, calls.EndTransactionResponse).status
        if status.code != v2.INVALID_TRANSACTION_ID:
            _refuse(status)


class RocketProducer(GatewayProducer):
    """Sends under its order's name as the message id."""

    def __init__(self, books: OrderBooks, watch: Watch, seed: int, gateways: Sequence[RocketGateway]) -> None:
        super().__init__(books, watch, seed)
        self._gateways = gateways

    def _post(self, gateway: int, name: str, messages: Sequence[Message]) -> str:
        (message,) = messages
        at = self._gateways[gateway]
        request = calls.SendMessageRequest(messages=[_sent(message, name)])
        response = at.call("SendMessage", request, calls.SendMessageResponse)
        _refuse(response.status)
        return str(response.entries[0].transaction_id)

    def _say(self, gateway: int, topic: str, ticket: str, end: End) -> None:
        self._gateways[gateway].end(topic, ticket, end)


class RocketAnswering(threading.Thread):
    """Has a stream to one gateway, opens it again when it ends, and answers what it is asked there."""

    def __init__(self, books: OrderBooks, gateway: RocketGateway, topics: Sequence[str]) -> None:
        super().__init__(name="answering", daemon=True)
        self._books = books
        self._gateway = gateway
        self._topics = topics

    def run(self) -> None:
        """Until the process ends."""
        while True:
            ended: queue.SimpleQueue[None] = queue.SimpleQueue()
            try:
                for command in self._stream(ended):
                    if command.HasField("recover_orphaned_transaction_command"):
                        self._answer(command.recover_orphaned_transaction_command)
            except grpc.RpcError:
                pass
            finally:
                ended.put(None)
            time.sleep(_PAUSE_SECONDS)

    def _stream(self, ended: "queue.SimpleQueue[None]") -> Any:
        topics = [v2.Resource(name=topic) for topic in self._topics]
        settings = v2.Settings(publishing=v2.Publishing(topics=topics), user_agent=v2.UA(language=v2.PYTHON))

        def said() -> Iterator[calls.TelemetryCommand]:
            yield calls.TelemetryCommand(settings=settings)
            ended.get()

        method = self._gateway.channel.stream_stream(
            f"{_SERVICE}Telemetry",
            request_serializer=calls.TelemetryCommand.SerializeToString,
            response_deserializer=calls.TelemetryCommand.FromString,
        )
        return method(said(), metadata=self._gateway.metadata)

    def _answer(self, command: calls.RecoverOrphanedTransactionCommand) -> None:
        state: LocalTransactionState = self._books.answer(command.message.user_properties.get(NAME, ""))
        try:
            self._gateway.end(command.message.topic.name, command.transaction_id, End(state.value))
        except NoAnswerError:
            return


class RocketSeller(Seller):
    """Sells by what RocketMQ's clients can send: one message with a body, text, and no name twice."""

    kind = Kind.ROCKETMQ
    numbers = (1,)
    client_id = ""

    def _message(self) -> Message:
        """As consumers get it."""
        made = super()._message()
        key = made.key if made.key and made.key.isascii() else None
        name = dict(made.headers)[NAME]
        keys = [(KEYS_HEADER, key)] if key else []
        ours = [(MESSAGE_ID_HEADER, name), (CLIENT_HEADER, self.client_id.encode())]
        given = [(NAME, name), ("trace", b"%d" % self._chance.randrange(1000))]
        return Message(made.topic, made.value or b"", key, [*keys, *ours, *given])


def _sent(message: Message, name: str) -> v2.Message:
    given = {header: value.decode() for header, value in message.headers if not header.startswith("rmq-")}
    given.pop(KEYS_HEADER, None)
    keys = [message.key.decode()] if message.key else []
    system = v2.SystemProperties(message_type=v2.TRANSACTION, message_id=name, keys=keys)
    return v2.Message(
        topic=v2.Resource(name=message.topic), body=message.value, user_properties=given, system_properties=system
    )


def _refuse(status: v2.Status) -> None:
    if status.code == v2.OK:
        return
    said = f"{status.code} {status.message}"
    if status.code in _NOBODY_KNOWS:
        raise NoAnswerError(said)
    raise RefusedError(said)
