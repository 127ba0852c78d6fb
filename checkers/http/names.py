"""Host names to addresses: a bounded number of look-ups at once, of which each group has its share.

A look-up runs in the operating system's resolver, which cannot be called back and may take half a minute; its thread is
held until then, whoever has given up waiting. So each has a thread of its own that nobody waits for, their number is
limited, and a name is looked up once at a time.
"""

import asyncio
import socket
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from checkers.http.shares import OwnMeansError, Shares

_LOOKUPS = 64
_KEPT_SECONDS = 10.0
_REFUSED_SECONDS = 2.0  # so long a name is not looked up again that has just failed
_STALE_SECONDS = 300.0  # so old an address is used when the resolver is slow or busy
_MOST_NAMES = 4_096


class Address(NamedTuple):
    """One of a name's addresses, as text."""

    family: socket.AddressFamily
    protocol: int
    text: str


@dataclass(slots=True)
class _KnownName:
    addresses: list[Address]
    error: Exception | None
    """Why there are none."""
    at: float


class Names:
    """Belongs to one asyncio loop. ``seconds`` is how long anybody waits for a name."""

    def __init__(
        self,
        seconds: float,
        lookups: int = _LOOKUPS,
        clock: Callable[[], float] = time.monotonic,
        look_up: Callable[[str], list[Address]] | None = None,
    ) -> None:
        self._seconds = seconds
        self._shares = Shares(lookups)
        self._clock = clock
        self._look_up = look_up or _addresses
        self._kept: OrderedDict[str, _KnownName] = OrderedDict()
        self._under_way: dict[str, asyncio.Future[list[Address]]] = {}

    async def addresses(self, group: str, host: str) -> list[Address]:
        """Addresses of a host, at least one.

        Raises:
            OwnMeansError: too many names are being looked up, by this group or by all: nothing is known of this one.
            OSError, UnicodeError: it has none, or they were not found within ``seconds``.
        """
        kept = self._kept.get(host)
        if kept is not None and self._clock() - kept.at < (_KEPT_SECONDS if kept.error is None else _REFUSED_SECONDS):
            return _given(kept)
        under_way = self._under_way.get(host) or self._begin(group, host)
        if under_way is None:
            return self._stale(kept, OwnMeansError(f"too many host names are being looked up; {host} has to wait"))
        try:
            return await asyncio.wait_for(asyncio.shield(under_way), self._seconds)
        except TimeoutError:
            late = socket.gaierror(socket.EAI_AGAIN, f"the name {host} was not resolved within {self._seconds:g} s")
            return self._stale(kept, late)

    def _stale(self, kept: _KnownName | None, error: OSError) -> list[Address]:
        if kept is None or kept.error is not None or self._clock() - kept.at >= _STALE_SECONDS:
            raise error
        return kept.addresses

    def _begin(self, group: str, host: str) -> "asyncio.Future[list[Address]] | None":
        if not self._shares.take(group):
            return None
        loop = asyncio.get_running_loop()
        under_way: asyncio.Future[list[Address]] = loop.create_future()
        under_way.add_done_callback(lambda future: future.exception())  # nobody may be waiting for it any more
        self._under_way[host] = under_way

        def run() -> None:
            found: list[Address] = []
            error: Exception | None = None
            try:
                found = self._look_up(host)
            except Exception as raised:  # noqa: BLE001  (it is told to whoever waits)
                error = raised
            try:
                loop.call_soon_threadsafe(self._end, group, host, found, error)
            except RuntimeError:
                return  # the loop is closed: nobody waits

        try:
            threading.Thread(target=run, name="checks-name", daemon=True).start()
        except RuntimeError as error:  # no more threads
            self._end(group, host, [], OwnMeansError(str(error)))
        return under_way

    def _end(self, group: str, host: str, found: list[Address], error: Exception | None) -> None:
        self._shares.give(group)
        under_way = self._under_way.pop(host)
        if error is None and not found:
            error = socket.gaierror(socket.EAI_NONAME, f"the name {host} has no address")
        if not isinstance(error, OwnMeansError):
            self._kept[host] = _KnownName(found, error, self._clock())
            self._kept.move_to_end(host)
            while len(self._kept) > _MOST_NAMES:
                self._kept.popitem(last=False)
        if error is None:
            under_way.set_result(found)
        else:
            under_way.set_exception(error)


def _given(kept: _KnownName) -> list[Address]:
    if kept.error is not None:
        raise kept.error.with_traceback(None)  # the same one each time: it must not grow
    return kept.addresses


def _addresses(host: str) -> list[Address]:
    found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return [Address(family, protocol, _text(place)) for family, _, protocol, _, place in found]


def _text(place: tuple[Any, ...]) -> str:
    # a link-local address is only whole with its interface, the fourth part
    return f"{place[0]}%{place[3]}" if len(place) > 3 and place[3] and "%" not in place[0] else str(place[0])
