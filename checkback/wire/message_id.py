"""What names a message to its consumers, so that one that comes a second time is recognized."""

import hashlib
from typing import Any

from checkback.wire.protocol import ID

MAX_BYTES = 300
"""Of an id: the longest name of a topic, two numbers and a time."""


def message_id(message: Any) -> str:
    """The id of a message that a consumer got: of Checkback's consumers, kafka-python's or confluent-kafka's.

    It is the header ``cb-id``: the transaction's id, with ``#`` and a number where the transaction has several
    messages. Without one it is the message's place and time, ``topic:partition:offset@ms``: a copy in another topic or
    cluster has another, and so has a message of a topic that was deleted and made again. One that was tried before has
    the id that it had at first.

    Text is taken as an id. One that is longer than 300 bytes is a hash of itself here.

    Raises:
        TypeError: this is not a message of these.
    """
    if isinstance(message, str):
        return _storable(message)
    topic, partition, offset = (_of(message, name) for name in ("topic", "partition", "offset"))
    header = next((value for name, value in _of(message, "headers") or () if name == ID), None)
    if header:
        return _storable(header.decode(errors="backslashreplace"))
    place, written_ms = f"{topic}:{partition}:{offset}", _written_ms(message)
    return f"{place}@{written_ms}" if written_ms > 0 else place


def _written_ms(message: Any) -> int:
    """0 or less: Kafka does not know."""
    if hasattr(message, "timestamp_ms"):
        return int(message.timestamp_ms)
    found = _of(message, "timestamp")
    return int(found[1] if isinstance(found, tuple) else found)  # confluent-kafka's is its kind and the time


def _of(message: Any, name: str) -> Any:
    try:
        found = getattr(message, name)
    except AttributeError:
        raise TypeError(f"A message of a Kafka consumer is needed, not {type(message).__name__}.") from None
    return found() if callable(found) else found  # confluent-kafka has methods


def _storable(given: str) -> str:
    """What every database takes as text: anybody may write anything into a header."""
    content = given.replace("\0", "\\x00").encode(errors="backslashreplace")
    if len(content) > MAX_BYTES:
        return f"sha256:{hashlib.sha256(content).hexdigest()}"
    return content.decode()
