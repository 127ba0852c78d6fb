"""Who can be asked what became of a transaction: streams and long polls of clients, by producer group.

All on one loop. First the client that sent the half message is asked, then others of its group: one that goes while it
is asked is passed over at once, one that says nothing is waited for, and costs its own group only.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator
from enum import Enum, auto
from typing import NamedTuple, Protocol

from access.credentials import Caller
from checkback.listener import LocalTransactionState
from checkback.wire.checks import CheckRequest
from gateway.tickets import Ticket

_LOGGER = logging.getLogger(__name__)
PATIENCE_SECONDS = 2.0
"""Java's and Node's clients send nothing for *unknown*. Shorter than the check service's patience, ``ask_timeout``."""
CLIENT_HEADER = "rmq-client"
"""Of a half message: the id of the client that sent it."""


May = Callable[[Caller, str], bool]
"""Whether somebody may answer for a producer group."""


class Channel(Protocol):
    """A client that can be asked."""

    @property
    def client_id(self) -> str:
        """As its half messages say it in :data:`CLIENT_HEADER`."""

    @property
    def listening(self) -> bool:
        """Whether it sees at once what it is handed: others are asked before one that does not."""

    def hand(self, check: CheckRequest) -> None:
        """Hand it a question; does not wait, and never raises."""

    def take_back(self, check: CheckRequest) -> bool:
        """It need not answer any more. True: it has never seen the question."""


class ClientAnswer(NamedTuple):
    """What somebody answered, or that he did not."""

    state: LocalTransactionState
    remark: str


class Heard(Enum):
    """What becomes of an answer."""

    BY_NOBODY = auto()
    """Nobody has asked, or not any more."""
    AS_END = auto()
    """It says how the transaction ended, as an end would."""
    AS_WORD = auto()
    """Who has asked decides by more than this."""


class _GoneError(Exception):
    """The client went while it was asked."""


class _Asked(NamedTuple):
    channel: Channel
    group: str
    answer: "asyncio.Future[ClientAnswer]"
    heard: Heard


class Asking:
    """Channels by group, and the questions that are under way."""

    def __init__(self, patience_seconds: float = PATIENCE_SECONDS) -> None:
        self._patience = patience_seconds
        self._channels: dict[str, dict[Channel, None]] = {}
        """Of each group, the one that was asked last at the end."""
        self._asked: dict[Ticket, _Asked] = {}
        self._under_way: dict[Ticket, asyncio.Future[ClientAnswer | None]] = {}
        self.changed = asyncio.Event()
        """Set when a group comes or goes; who looks clears it."""

    def groups(self) -> list[str]:
        """Those of which somebody can be asked."""
        return list(self._channels)

    def clients(self) -> int:
        """How many there are."""
        return len({channel for channels in self._channels.values() for channel in channels})

    def join(self, channel: Channel, group: str) -> None:
        """From now on the channel can be asked about transactions of this group."""
        if group not in self._channels:
            self.changed.set()
        self._channels.setdefault(group, {}).setdefault(channel)

    def leave(self, channel: Channel, groups: Iterable[str]) -> None:
        """It cannot be asked about these any more: what it has not answered of them, others are asked."""
        left = set(groups)
        for group in left:
            channels = self._channels.get(group, {})
            channels.pop(channel, None)
            if not channels and self._channels.pop(group, None) is not None:
                self.changed.set()
        for asked in self._asked.values():
            if asked.channel is channel and asked.group in left and not asked.answer.done():
                asked.answer.set_exception(_GoneError())

    async def ask(self, check: CheckRequest, heard: Heard = Heard.AS_END) -> ClientAnswer | None:
        """What one of the clients of its group says; None: there is none, or none that has seen the question.

        Each half message is asked about once at a time. ``heard``: what :meth:`answer` says to who answers.
        """
        ticket = Ticket.of(check)
        under_way = self._under_way.get(ticket)
        if under_way is None:
            under_way = self._under_way[ticket] = asyncio.ensure_future(self._ask(check, heard))
            under_way.add_done_callback(lambda _: self._under_way.pop(ticket, None))
        return await asyncio.shield(under_way)

    async def _ask(self, check: CheckRequest, heard: Heard) -> ClientAnswer | None:
        loop = asyncio.get_running_loop()
        until = loop.time() + self._patience
        ticket = Ticket.of(check)
        for channel in self._candidates(check):
            asked = self._asked[ticket] = _Asked(channel, check.group, loop.create_future(), heard)
            try:
                channel.hand(check)
                async with asyncio.timeout_at(until):
                    return await asked.answer
            except _GoneError:
                continue
            except TimeoutError:
                if channel.take_back(check):
                    return None
                said = f"client {channel.client_id:.80} said nothing within {self._patience:g} s"
                return ClientAnswer(LocalTransactionState.UNKNOWN, said)
            except Exception:  # of one half message that cannot be told: others are asked about beside it
                _LOGGER.exception("Client %.80s could not be asked about %s", channel.client_id, check.half)
                return ClientAnswer(LocalTransactionState.UNKNOWN, "the gateway could not tell a client of it")
            finally:
                channel.take_back(check)
                del self._asked[ticket]
        return None

    def answer(self, ticket: Ticket, said: ClientAnswer) -> Heard:
        """Take an answer about just this transaction."""
        asked = self._asked.get(ticket)
        if asked is None or asked.answer.done():
            return Heard.BY_NOBODY
        asked.answer.set_result(said)
        return asked.heard

    def _candidates(self, check: CheckRequest) -> Iterator[Channel]:
        sender = dict(check.headers).get(CLIENT_HEADER, b"").decode(errors="replace")
        asked_last = check.attempt % 2 == 0
        tried: set[int] = set()
        while channels := self._channels.get(check.group):
            left = [channel for channel in channels if id(channel) not in tried]
            if not left:
                return
            left = [channel for channel in left if channel.listening] or left
            # the first wins: the sender, unless it was asked the last time; then the one that has waited for longest
            chosen = min(left, key=lambda channel: (channel.client_id == sender) == asked_last)
            tried.add(id(chosen))
            channels[chosen] = channels.pop(chosen)
            yield chosen
