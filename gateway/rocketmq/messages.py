"""RocketMQ's messages as Kafka's, and back. No I/O."""

import hashlib
import zlib
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from checkback.exceptions import ProtocolError
from checkback.wire.checks import CheckRequest
from checkback.wire.limits import MAX_HEADERS
from checkback.wire.protocol import Message, TransactionOptions, lawful_topic
from gateway.asking import CLIENT_HEADER
from gateway.refusals import GatewayError, RefusalReason
from gateway.rocketmq.v2 import definition_pb2 as v2
from gateway.rocketmq.v2.service_pb2 import RecoverOrphanedTransactionCommand

TAGS_HEADER = "tags"
"""Where ``checkback.consumer`` looks for a tag."""
KEYS_HEADER = "keys"
MESSAGE_ID_HEADER = "rmq-message-id"
BORN_MS_HEADER = "rmq-born-ms"
BORN_HOST_HEADER = "rmq-born-host"
TRACE_HEADER = "rmq-trace-context"
NAMESPACE_HEADER = "rmq-namespace"
_OURS = frozenset({TAGS_HEADER, KEYS_HEADER})
_RESERVED = ("cb-", "checkback-", "rmq-")
MOST_PROPERTIES_BYTES = 16 << 10
"""Of names and values of user properties together: RocketMQ's ``userPropertiesMaxSize``."""
_MOST_PROPERTIES = 128
_LAST_MS = 253_402_300_799_999
"""The last that a Timestamp can be: anybody may write a header with another number."""
MOST_MESSAGES = 64
"""In one request: RocketMQ's own clients send few."""
_MOST_FIELDS = 20_000
"""Of all messages of a request: keys, properties, and others."""
_INNER_TAGS = (0x0A, 0x1A, -1)
"""Of what has fields that count: a message in a request, and system properties in a message."""
_VARINT_BITS = 64
_MOST_TEXT = 255
"""Characters of a tag, a key, a message group."""
GRPC_BYTES = 4 << 20
"""Of one message, as a gRPC client takes it where it says nothing else: its stream breaks at a larger one."""
_COMMAND_BYTES = 16
"""What is around it on the stream."""
LEFT_OUT_PROPERTY = "checkback-left-out"
"""Of a message that a client is asked about without its body: how many bytes that has."""


class Incoming(NamedTuple):
    """A message that a client sends."""

    kind: v2.MessageType
    message: Message
    message_id: str
    options: TransactionOptions


def topic_of(resource: v2.Resource) -> str:
    """Kafka's topic: a namespace and a full stop before it, where the client names one.

    Raises:
        GatewayError: Kafka has no topics of such a name.
    """
    topic = f"{resource.resource_namespace}.{resource.name}" if resource.resource_namespace else resource.name
    try:
        lawful_topic(topic)
    except ProtocolError as error:
        raise GatewayError(RefusalReason.TOPIC, str(error)) from None
    return topic


def refuse_many_fields(raw: bytes) -> None:
    """Count messages and fields of a ``SendMessageRequest`` before they are converted.

    What protobuf makes of one empty message takes 2 bytes of the request, and 800 bytes of memory.

    Raises:
        GatewayError: there are too many. What is no request at all is for protobuf to refuse.
    """
    messages = fields = 0
    inside = [(0, len(raw), 0)]
    try:
        while inside:
            at, end, level = inside.pop()
            while at < end:
                (tag, at), fields = _varint(raw, at), fields + 1
                size, at = _varint(raw, at) if tag & 7 in {0, 2} else ({1: 8, 5: 4}.get(tag & 7, 0), at)
                if tag == _INNER_TAGS[level]:
                    inside.append((at, min(at + size, end), level + 1))
                    messages += level == 0
                if messages > MOST_MESSAGES:
                    raise GatewayError(RefusalReason.REQUEST, f"At most {MOST_MESSAGES} messages are taken at once.")
                if fields > _MOST_FIELDS:
                    problem = f"At most {_MOST_FIELDS:,} keys and properties are taken at once."
                    raise GatewayError(RefusalReason.HEADERS_TOO_LARGE, problem)
                at += size if tag & 7 else 0
    except IndexError:
        return


def _varint(raw: bytes, at: int) -> tuple[int, int]:
    """A number of protobuf's, and where it ends. Raises IndexError for what is none."""
    value = 0
    for shift in range(0, _VARINT_BITS, 7):
        byte, at = raw[at], at + 1
        value |= (byte & 0x7F) << shift
        if not byte & 0x80:
            return value, at
    raise IndexError(at)


def incoming(sent: v2.Message, client_id: str, most_bytes: int) -> Incoming:
    """What a client sends, as Kafka gets it: value, key and headers as ``docs/gateway.md`` lists them.

    Raises:
        GatewayError: RocketMQ would refuse it, too; or Kafka cannot have it.
    """
    system = sent.system_properties
    if len(system.keys) > MAX_HEADERS:  # before each of them is converted: 1.6 million took seconds
        raise GatewayError(RefusalReason.HEADERS_TOO_LARGE, f"A message has at most {MAX_HEADERS:,} keys.")
    kind = _kind(system)
    body = _body(sent, most_bytes)
    group, keys = system.message_group, list(system.keys)
    _refuse_text(RefusalReason.MESSAGE_GROUP, "a message group", [group] if group else [])
    _refuse_text(RefusalReason.KEY, "a key", keys)
    key = group or (keys[0] if keys else "")
    message = Message(topic_of(sent.topic), body, key.encode() if key else None, _headers(sent, client_id))
    return Incoming(kind, message, system.message_id, _options(system))


def _kind(system: v2.SystemProperties) -> v2.MessageType:
    delayed, ordered = system.HasField("delivery_timestamp"), bool(system.message_group)
    untyped = v2.DELAY if delayed else v2.FIFO if ordered else v2.NORMAL
    said = untyped if system.message_type == v2.MESSAGE_TYPE_UNSPECIFIED else system.message_type
    if said not in {v2.NORMAL, v2.FIFO, v2.DELAY, v2.TRANSACTION}:
        raise GatewayError(RefusalReason.NOT_THERE, f"There are no messages of type {said} here: see docs/gateway.md.")
    if ordered != (said == v2.FIFO) or delayed != (said == v2.DELAY):
        raise GatewayError(
            RefusalReason.TYPE,
            "FIFO has a message group, DELAY has a delivery timestamp, and no other type has either.",
        )
    return said


def _body(sent: v2.Message, most_bytes: int) -> bytes:
    body = sent.body
    if sent.system_properties.body_encoding == v2.GZIP:
        unpacking = zlib.decompressobj(wbits=31)
        try:
            body = unpacking.decompress(body, most_bytes + 1)
        except zlib.error as error:
            raise GatewayError(RefusalReason.REQUEST, f"The body is not what gzip makes: {error}.") from None
        if not unpacking.eof and len(body) <= most_bytes:
            raise GatewayError(RefusalReason.REQUEST, "The body ends in the middle of what gzip has made.")
    if len(body) > most_bytes:
        raise GatewayError(RefusalReason.TOO_LARGE, f"The body has more than {most_bytes:,} bytes (gateway.max_body).")
    return body


def _headers(sent: v2.Message, client_id: str) -> list[tuple[str, bytes]]:
    system = sent.system_properties
    if system.tag and (not system.tag.strip() or "|" in system.tag):
        raise GatewayError(RefusalReason.TAG, "A tag is not blank, and has no | in it.")
    _refuse_text(RefusalReason.TAG, "a tag", [system.tag] if system.HasField("tag") else [])
    _refuse_properties(sent.user_properties)
    born_ms = _ms_of(system.born_timestamp, RefusalReason.REQUEST) if system.HasField("born_timestamp") else 0
    ours = (
        (TAGS_HEADER, system.tag),
        *((KEYS_HEADER, key) for key in system.keys),
        (MESSAGE_ID_HEADER, system.message_id),
        (BORN_MS_HEADER, str(born_ms) if born_ms else ""),
        (BORN_HOST_HEADER, system.born_host),
        (TRACE_HEADER, system.trace_context),
        (NAMESPACE_HEADER, sent.topic.resource_namespace),
        (CLIENT_HEADER, client_id),
    )
    given = sorted(sent.user_properties.items())
    return [(name, text.encode()) for name, text in (*(one for one in ours if one[1]), *given)]


def _refuse_properties(properties: Mapping[str, str]) -> None:
    if (
        len(properties) > _MOST_PROPERTIES
        or sum(len(name.encode()) + len(text.encode()) for name, text in properties.items()) > MOST_PROPERTIES_BYTES
    ):
        raise GatewayError(
            RefusalReason.HEADERS_TOO_LARGE,
            f"At most {_MOST_PROPERTIES} properties, of {MOST_PROPERTIES_BYTES:,} bytes together, are taken.",
        )
    for name in properties:
        if not name or name in _OURS or name.startswith(_RESERVED):
            raise GatewayError(
                RefusalReason.HEADER,
                f"A property cannot be named {name!r:.80}: it would be a header that means something here.",
            )


def _refuse_text(refusal: RefusalReason, what: str, texts: list[str]) -> None:
    for text in texts:
        if not text.strip() or len(text) > _MOST_TEXT:
            raise GatewayError(refusal, f"{what.capitalize()} is not blank, and has at most {_MOST_TEXT} characters.")


def _options(system: v2.SystemProperties) -> TransactionOptions:
    immunity_ms = deliver_at_ms = None
    if system.HasField("orphaned_transaction_recovery_duration"):
        immunity_ms = max(0, system.orphaned_transaction_recovery_duration.ToMilliseconds())
    if system.HasField("delivery_timestamp"):
        deliver_at_ms = _ms_of(system.delivery_timestamp, RefusalReason.DELIVERY_TIME)
        if deliver_at_ms < 0:
            raise GatewayError(RefusalReason.DELIVERY_TIME, "The delivery timestamp is before 1970.")
    return TransactionOptions(check_immunity_ms=immunity_ms, deliver_at_ms=deliver_at_ms)


def orphaned(
    check: CheckRequest, transaction_id: str, *, lower_case: bool = False, any_size: bool = False
) -> RecoverOrphanedTransactionCommand:
    """What a client is asked: the message as it was sent, without its body if it is too large for gRPC's own limit.

    ``lower_case``: how Go spells a digest. ``any_size``: the client takes more than that limit.
    """
    command = RecoverOrphanedTransactionCommand(transaction_id=transaction_id)
    command.message.CopyFrom(_asked_about(check, lower_case=lower_case))
    if check.left_out or (not any_size and command.ByteSize() + _COMMAND_BYTES > GRPC_BYTES):
        size = str(check.left_out or len(check.value or b"")).encode()
        without = replace(check, value=b"", headers=[*check.headers, (LEFT_OUT_PROPERTY, size)])
        command.message.CopyFrom(_asked_about(without, lower_case=lower_case))
    return command


def _asked_about(check: CheckRequest, *, lower_case: bool) -> v2.Message:
    given = [(name, content.decode(errors="replace")) for name, content in check.headers]
    said, body = dict(given), check.value or b""
    digest = hashlib.md5(body, usedforsecurity=False).hexdigest()
    namespace = said.get(NAMESPACE_HEADER, "")
    system = v2.SystemProperties(
        keys=[text for name, text in given if name == KEYS_HEADER],
        message_id=said.get(MESSAGE_ID_HEADER, check.transaction_id),
        body_digest=v2.Digest(type=v2.MD5, checksum=digest if lower_case else digest.upper()),
        body_encoding=v2.IDENTITY,
        message_type=v2.TRANSACTION,
        born_timestamp=_timestamp(_number(said.get(BORN_MS_HEADER, "")) or check.ingested_ms),
        born_host=said.get(BORN_HOST_HEADER, ""),
        store_timestamp=_timestamp(check.ingested_ms),
        store_host="checkback",
        delivery_attempt=check.attempt,
        orphaned_transaction_recovery_duration=Duration(),
    )
    if TAGS_HEADER in said:
        system.tag = said[TAGS_HEADER]
    if TRACE_HEADER in said:
        system.trace_context = said[TRACE_HEADER]
    ours = {*_OURS, MESSAGE_ID_HEADER, BORN_MS_HEADER, BORN_HOST_HEADER, TRACE_HEADER, NAMESPACE_HEADER, CLIENT_HEADER}
    return v2.Message(
        topic=v2.Resource(
            resource_namespace=namespace, name=check.topic.removeprefix(f"{namespace}." if namespace else "")
        ),
        user_properties={name: text for name, text in given if name not in ours},
        system_properties=system,
        body=body,
    )


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 15 else 0


def _ms_of(time: Timestamp, refusal: RefusalReason) -> int:
    try:
        return int(time.ToMilliseconds())
    except ValueError:
        raise GatewayError(refusal, "A timestamp is not between the years 1 and 9999.") from None


def _timestamp(ms: int) -> Timestamp:
    made = Timestamp()
    made.FromMilliseconds(min(ms, _LAST_MS))
    return made
