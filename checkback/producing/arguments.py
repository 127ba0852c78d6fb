"""What applications hand to a producer, looked at before anything is written.

Whatever is wrong with it is a :class:`~checkback.exceptions.ProtocolError`: a half message that the job rejects is
a lost one, of which its producer never hears.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from checkback.exceptions import ProtocolError
from checkback.wire.protocol import Headers, Message, TransactionOptions

_MOST_SECONDS = 10.0**11  # no number that fits into the header lies further ahead


def message_of(given: Any) -> Message:
    """The message, with headers that can be read more than once: an iterator of them becomes a tuple.

    Raises:
        ProtocolError: it is not a Message, or one of its parts is of a wrong type.
    """
    if not isinstance(given, Message):
        raise ProtocolError(f"A checkback.Message is what a producer sends, not {type(given).__name__}.")
    if not isinstance(given.topic, str):
        raise ProtocolError(f"A message's topic must be text, not {type(given.topic).__name__}.")
    for name, content in (("value", given.value), ("key", given.key)):
        if content is not None and not isinstance(content, bytes):
            raise ProtocolError(f"A message's {name} must be bytes or None, not {type(content).__name__}.")
    if given.value is None and given.key is None:
        raise ProtocolError("A message without a value is a tombstone, and needs a key.")
    return given if given.headers == () else given._replace(headers=_pairs(given.headers))


def messages_of(given: Any) -> tuple[Message, ...]:
    """Several messages, likewise."""
    if isinstance(given, Message) or not isinstance(given, Iterable):
        raise ProtocolError(f"Several messages are a list of checkback.Message, not {type(given).__name__}.")
    return tuple(message_of(one) for one in given)


def options_of(given: Any) -> TransactionOptions | None:
    """The options.

    Raises:
        ProtocolError: they are something else.
    """
    if given is not None and not isinstance(given, TransactionOptions):
        raise ProtocolError(f"options are checkback.TransactionOptions, not {type(given).__name__}.")
    return given


def deliver_at_ms_of(at: Any, delay: Any, now_ms: int) -> int:
    """When to deliver a message, in ms since 1970: a time, or a while from now; just one of the two.

    Raises:
        ProtocolError: both, none, or something else.
    """
    if (at is None) == (delay is None):
        raise ProtocolError("A message is sent for later with either at=..., a time, or delay=..., a while.")
    if isinstance(at, datetime):
        if at.tzinfo is None:
            raise ProtocolError("at must have a time zone: datetime(..., tzinfo=UTC).")
        return round(at.timestamp() * 1000)
    if at is not None:
        if type(at) is not int:
            raise ProtocolError(f"at is a datetime, or ms since 1970, not {type(at).__name__}.")
        return int(at)
    seconds = delay.total_seconds() if isinstance(delay, timedelta) else delay
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 <= seconds < _MOST_SECONDS:
        raise ProtocolError(f"delay is a timedelta, or seconds, and not negative; not {delay!r:.40}.")
    return now_ms + round(seconds * 1000)


def _pairs(headers: Any) -> Headers:
    if isinstance(headers, str | bytes | Mapping) or not isinstance(headers, Iterable):
        raise ProtocolError(f"A message's headers must be a list of (name, value), not {type(headers).__name__}.")
    pairs = tuple(headers)
    for pair in pairs:
        if not (isinstance(pair, tuple | list) and len(pair) == 2 and isinstance(pair[0], str)):
            raise ProtocolError(f"A message's headers must be pairs of a name (text) and a value, not {pair!r:.80}.")
    kept: type[list[Any] | tuple[Any, ...]] = list if isinstance(headers, list) else tuple
    return kept((name, value) for name, value in pairs)
