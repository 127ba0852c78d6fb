"""A half message of several messages, one by one: a rule of the wire protocol (docs/protocol.md)."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from checkback.wire.message_json import unpack
from streaming.batch.headers import Headers, application_headers
from streaming.batch.record import RANDOM_OR_KEYED


class BundledMessage(NamedTuple):
    """One of several, as consumers get it; its headers without ``cb-id``."""

    transaction_id: str
    """With its number in the bundle, from 1: ``ID#2``."""
    topic: str
    partition: int
    key: bytes | None
    value: bytes | None
    headers: Headers


def bundled_messages(row: Mapping[str, Any]) -> Iterator[BundledMessage]:
    """The messages of a row of outcomes, in the order in which they were added."""
    common = application_headers(row["headers"])
    for number, message in enumerate(unpack(row["value"]), start=1):
        yield BundledMessage(
            f"{row['transaction_id']}#{number}",
            message.topic,
            RANDOM_OR_KEYED if message.partition is None else message.partition,
            message.key,
            message.value,
            [*message.headers, *common],
        )
