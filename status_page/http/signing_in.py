"""Who may act: whoever has ``http.token``. Browsers get a session for it, programs show it with each request."""

import hmac
import math
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address
from typing import NamedTuple

_SESSION_SECONDS = 8 * 3_600.0
"""A working day; then the token is asked for again."""
_SESSIONS = 100
"""At once; one more ends the oldest."""
_FREE_GUESSES = 5
_LONGEST_WAIT_SECONDS = 60.0
_FORGOTTEN_SECONDS = 900.0
_ADDRESSES = 1_000


class Session(NamedTuple):
    """Of one browser."""

    name: str
    """What its cookie says; nobody can guess it."""
    form_token: str
    """What each of its forms must say, so that no other page can send one for it."""
    ends: float


class TokenCheck(NamedTuple):
    """What came of showing a token."""

    admitted: bool
    wait_seconds: float = 0.0
    """Not looked at: there were too many wrong ones from that address. Try again after this time."""


@dataclass
class _Guesses:
    wrong: int = 0
    until: float = -math.inf
    last: float = -math.inf


class SigningIn:
    """Sessions are kept in memory: they end with the job. ``token`` empty: nobody may act."""

    def __init__(self, token: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._token = token.encode()
        self._clock = clock
        self._sessions: OrderedDict[str, Session] = OrderedDict()
        self._guesses: OrderedDict[str, _Guesses] = OrderedDict()

    @property
    def possible(self) -> bool:
        """Whether anybody may act."""
        return bool(self._token)

    def admit(self, token: str, address: str) -> TokenCheck:
        """Judge a token that somebody at ``address`` shows.

        After five wrong ones from an address (of IPv6, from a /64) it has to wait, a second first, then twice as long
        each time, up to a minute; meanwhile the right one is not looked at, either.
        """
        now = self._clock()
        guesses = self._guesses_of(_neighbourhood(address), now)
        if now < guesses.until:
            return TokenCheck(admitted=False, wait_seconds=guesses.until - now)
        if self.possible and hmac.compare_digest(token.encode(errors="replace"), self._token):
            self._guesses.pop(_neighbourhood(address), None)
            return TokenCheck(admitted=True)
        guesses.wrong += 1
        guesses.last = now
        if guesses.wrong >= _FREE_GUESSES:
            doubled = min(guesses.wrong - _FREE_GUESSES, 16)  # 2.0**1024 is an error: no wait at all
            guesses.until = now + min(_LONGEST_WAIT_SECONDS, 2.0**doubled)
        return TokenCheck(admitted=False)

    def begin(self) -> Session:
        """A session for somebody who was admitted."""
        session = Session(secrets.token_urlsafe(32), secrets.token_urlsafe(32), self._clock() + _SESSION_SECONDS)
        while len(self._sessions) >= _SESSIONS:
            self._sessions.popitem(last=False)
        self._sessions[session.name] = session
        return session

    def session(self, name: str) -> Session | None:
        """The session with this name; None when there is none, or it has ended."""
        session = self._sessions.get(name)
        if session is None or session.ends > self._clock():
            return session
        self.end(name)
        return None

    def end(self, name: str) -> None:
        """End a session. Harmless when there is none."""
        self._sessions.pop(name, None)

    def _guesses_of(self, address: str, now: float) -> _Guesses:
        while self._guesses and now - next(iter(self._guesses.values())).last > _FORGOTTEN_SECONDS:
            self._guesses.popitem(last=False)
        found = self._guesses.pop(address, None) or _Guesses(last=now)
        if len(self._guesses) >= _ADDRESSES:
            self._guesses.popitem(last=False)
        self._guesses[address] = found  # heard from last: at the end
        return found


def same(shown: str, known: str) -> bool:
    """Whether two secrets are the same, in a time that says nothing of them."""
    return hmac.compare_digest(shown.encode(errors="replace"), known.encode())


def _neighbourhood(address: str) -> str:
    """An IPv4 address, a /64 of IPv6, or this machine, whose programs can use any of its loopback addresses."""
    try:
        found = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(found, IPv6Address) and found.ipv4_mapped:
        found = found.ipv4_mapped
    if found.is_loopback:
        return "loopback"
    return str(int(found) >> 64) if isinstance(found, IPv6Address) else str(found)
