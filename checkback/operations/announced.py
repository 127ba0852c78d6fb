"""Check endpoints as their producers announce them in ``cb.producers``, for people."""

from collections.abc import Iterable
from typing import Any, NamedTuple

from checkback.exceptions import ProtocolError
from checkback.wire.checks import Announcement


class AnnouncedEndpoint(NamedTuple):
    """An endpoint that was announced and has not been taken back."""

    group: str
    instance: str
    url: str
    heard_ms: int
    """When Kafka got its last heartbeat, in ms since 1970."""
    topics: tuple[str, ...] | None = None
    """Real topics it answers for; None: all."""


def announced(records: Iterable[Any]) -> list[AnnouncedEndpoint]:
    """The endpoints that these records of ``cb.producers`` leave, those heard from last at the end.

    What cannot be read takes the announcement under its key back, as the check service has it.
    """
    found: dict[bytes, AnnouncedEndpoint] = {}
    for record in records:
        key = record.key or b""
        found.pop(key, None)
        if record.value is None:
            continue
        try:
            said = Announcement.from_record(record.value, key)
        except ProtocolError:
            continue
        found[key] = AnnouncedEndpoint(said.group, said.instance, said.url, record.timestamp, said.topics)
    return list(found.values())
