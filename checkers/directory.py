"""Which endpoints a producer group has: fixed ones from the settings, and those announced in ``cb.producers``."""

from collections.abc import Mapping, Sequence

from checkback.check_protocol import Announcement
from checkback.exceptions import ProtocolError


class EndpointDirectory:
    """Endpoints by producer group. Heard announcements live ``ttl_ms`` from when they were heard."""

    def __init__(self, fixed: Mapping[str, Sequence[str]], ttl_ms: int) -> None:
        self._fixed = {group: list(urls) for group, urls in fixed.items()}
        self._ttl_ms = ttl_ms
        self._announced: dict[bytes, tuple[Announcement, int]] = {}

    def hear(self, key: bytes, value: bytes | None, now_ms: int) -> None:
        """Take in a record of ``cb.producers``; one that cannot be read is as if it were not there."""
        if value is None:
            self._announced.pop(key, None)
            return
        try:
            self._announced[key] = (Announcement.from_record(value), now_ms)
        except ProtocolError:
            self._announced.pop(key, None)

    def endpoints(self, group: str, now_ms: int) -> list[str]:
        """URLs of a group, the one heard from last first, fixed ones after."""
        live = [
            (heard_ms, announced.url)
            for announced, heard_ms in self._announced.values()
            if announced.group == group and now_ms - heard_ms < self._ttl_ms
        ]
        ordered = [url for _, url in sorted(live, reverse=True)]
        return list(dict.fromkeys([*ordered, *self._fixed.get(group, [])]))
