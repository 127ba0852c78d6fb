"""Which endpoints a producer group has: fixed ones from the settings, and those announced in ``cb.producers``."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from checkback.check_protocol import Announcement
from checkback.exceptions import ProtocolError


class Endpoint(NamedTuple):
    """Where to ask, and how many checks at once."""

    url: str
    batch: int = 1


class _Heard(NamedTuple):
    announced: Announcement
    endpoint: Endpoint
    heard_ms: int


class EndpointDirectory:
    """Endpoints by producer group. Heard announcements live ``ttl_ms`` from when they were heard."""

    def __init__(self, fixed: Mapping[str, Sequence[str]], ttl_ms: int) -> None:
        self._fixed = {group: [Endpoint(url) for url in urls] for group, urls in fixed.items()}
        self._ttl_ms = ttl_ms
        self._group_of: dict[bytes, str] = {}
        # each group's, the one heard from last at the end
        self._announced: dict[str, dict[bytes, _Heard]] = {}

    def hear(self, key: bytes, value: bytes | None, now_ms: int) -> None:
        """Take in a record of ``cb.producers``; one that cannot be read is as if it were not there."""
        self._forget(key)
        if value is None:
            return
        try:
            said = Announcement.from_record(value)
        except ProtocolError:
            return
        self._group_of[key] = said.group
        heard = _Heard(said, Endpoint(said.url, said.batch), now_ms)
        self._announced.setdefault(said.group, {})[key] = heard

    def endpoints(self, group: str, topic: str, now_ms: int) -> list[Endpoint]:
        """Endpoints of a group that answer for a topic, the one heard from last first, fixed ones after."""
        announced = self._announced.get(group, {})
        for key in [key for key, heard in announced.items() if now_ms - heard.heard_ms >= self._ttl_ms]:
            self._forget(key)
        found: dict[str, Endpoint] = {}
        for heard in reversed(announced.values()):
            if heard.announced.topics is None or topic in heard.announced.topics:
                found.setdefault(heard.endpoint.url, heard.endpoint)
        for endpoint in self._fixed.get(group, ()):
            found.setdefault(endpoint.url, endpoint)
        return list(found.values())

    def _forget(self, key: bytes) -> None:
        group = self._group_of.pop(key, None)
        if group is None:
            return
        del self._announced[group][key]
        if not self._announced[group]:
            del self._announced[group]
