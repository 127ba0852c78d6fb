"""Several messages in one half message, and how JSON spells a message: bytes in base64, what is missing is null.

``docs/protocol.md``, "Several messages in one half", specifies it.
"""

import json
from base64 import b64decode, b64encode
from collections.abc import Sequence
from typing import Any

from checkback.exceptions import ProtocolError
from checkback.wire.json_reading import read_json
from checkback.wire.protocol import Headers, Message, lawful_name, lawful_names, lawful_partition, lawful_topic


def pack(messages: Sequence[Message]) -> bytes:
    """Value of a half message that holds several: JSON, all bytes in base64.

    Raises:
        ProtocolError: no message, or one with an invalid topic, partition or header name.
    """
    if not messages:
        raise ProtocolError("A transaction of several messages needs at least one.")
    for message in messages:
        _lawful(message)
    # one at a time: other threads wait for the interpreter as long as one call of the encoder takes
    bodies = (json.dumps(message_to_json(message)).encode() for message in messages)
    return b'{"messages": [' + b", ".join(bodies) + b"]}"


def unpack(value: bytes | None) -> tuple[Message, ...]:
    """Read what :func:`pack` made, or another client. A header's value may be None then.

    Raises:
        ProtocolError: it is something else.
    """
    try:
        said = read_json(value)
    except ValueError as error:
        raise ProtocolError("Not a value of several messages: it is not JSON.") from error
    return messages_from_json(said.get("messages") if isinstance(said, dict) else None)


def messages_from_json(said: Any) -> tuple[Message, ...]:
    """Read a JSON list of messages.

    Raises:
        ProtocolError: it is something else.
    """
    if not isinstance(said, list):
        raise ProtocolError("Not a value of several messages: it is not an object with a list 'messages'.")
    if not said:
        raise ProtocolError("Not a value of several messages: it holds none.")
    return tuple(_message_from_json(body, f"message {number}") for number, body in enumerate(said, start=1))


def message_to_json(message: Message) -> dict[str, Any]:
    """A message as JSON spells it, bytes in base64."""
    return {
        "topic": message.topic,
        "partition": message.partition,
        "key": to_base64(message.key),
        "payload": to_base64(message.value),
        "headers": [[name, to_base64(value)] for name, value in message.headers],
    }


def _lawful(message: Message) -> None:
    """Raises ProtocolError where a message that an application gives breaks the protocol."""
    lawful_topic(message.topic)
    lawful_names(message.headers)
    if message.partition is not None:
        lawful_partition(message.partition)


def _message_from_json(body: Any, which: str) -> Message:
    """Read what :func:`message_to_json` made; what is missing is null. ``which`` is the message's name in errors."""
    if not isinstance(body, dict):
        raise ProtocolError(f"Not a value of several messages: {which} is not an object.")
    topic, partition, headers = body.get("topic"), body.get("partition"), body.get("headers")
    if not isinstance(topic, str):
        raise ProtocolError(f"Not a value of several messages: the topic of {which} is not text.")
    lawful_topic(topic)
    if partition is not None:
        if type(partition) is not int:
            raise ProtocolError(f"Not a value of several messages: the partition of {which} is not a whole number.")
        lawful_partition(partition)
    key, value = _bytes(body.get("key"), f"the key of {which}"), _bytes(body.get("payload"), f"the payload of {which}")
    return Message(topic, value, key, _headers_from_json(headers, which), partition)


def _headers_from_json(said: Any, which: str) -> Headers:
    if said is None:
        return []
    pairs = isinstance(said, list) and all(isinstance(one, list) and len(one) == 2 for one in said)
    if not pairs or not all(isinstance(name, str) for name, _ in said):
        raise ProtocolError(f"Not a value of several messages: the headers of {which} are not a list of [name, value].")
    for name, _ in said:
        lawful_name(name)
    return [(name, _bytes(value, f"header {name!r:.80} of {which}")) for name, value in said]  # type: ignore[misc] # null stays null


def _bytes(said: Any, what: str) -> bytes | None:
    if said is None:
        return None
    try:
        return from_base64(said)
    except (TypeError, ValueError) as error:
        raise ProtocolError(f"Not a value of several messages: {what} is not base64.") from error


def to_base64(content: bytes | None) -> str | None:
    """Bytes as JSON spells them."""
    return None if content is None else b64encode(content).decode()


def from_base64(text: str | None) -> bytes | None:
    """Read what :func:`to_base64` made: RFC 4648, section 4, padded. Raises TypeError or ValueError where it is not."""
    if text is None:
        return None
    if not isinstance(text, str):
        raise TypeError(f"base64 is text, not {type(text).__name__}")
    return b64decode(text, validate=True)
