"""Clients that ask whether they are asked something: long polls, by account and producer group."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from time import monotonic

from access.credentials import Caller
from checkback.wire.checks import CheckRequest
from checkback.wire.limits import FairShares
from gateway.asking import Asking, May
from gateway.refusals import GatewayError, RefusalReason
from gateway.tickets import Ticket

MOST_WAIT_SECONDS = 60
MOST_CHECKS = 100
KEPT_SECONDS = 10.0
"""So long after its last poll a group can still be asked for: loops of a script pause between two polls."""
_MOST_POLLS = 3_000
_MOST_CHANNELS = 10_000
_MOST_OF_ACCOUNT = 1_000
"""Of these: who polls for groups without end takes nobody else's."""


class PollChannel:
    """All polls of an account for a group: whichever comes first takes what is there."""

    def __init__(self, caller: Caller, group: str) -> None:
        self.caller, self.group = caller, group
        self.client_id = f"{caller.account or 'anybody'} (HTTP)"
        self.polls = 0
        self.polled_at = 0.0
        """When the last poll ended, by the clock of :class:`Polls`."""
        self._unseen: dict[Ticket, CheckRequest] = {}
        self._came = asyncio.Event()
        self._ended = False

    @property
    def listening(self) -> bool:
        """See :class:`~gateway.asking.Channel`."""
        return self.polls > 0

    def hand(self, check: CheckRequest) -> None:
        """See :class:`~gateway.asking.Channel`."""
        self._unseen[Ticket.of(check)] = check
        self._came.set()

    def take_back(self, check: CheckRequest) -> bool:
        """See :class:`~gateway.asking.Channel`."""
        unseen = self._unseen.get(Ticket.of(check)) is check
        if unseen:
            del self._unseen[Ticket.of(check)]
        return unseen

    def end(self) -> None:
        """Polls return with what is there."""
        self._ended = True
        self._came.set()

    async def take(self, most: int, seconds: float) -> list[CheckRequest]:
        """At most so many questions, once there is one; none when the time is over."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while not self._unseen and not self._ended:
                    self._came.clear()
                    await self._came.wait()
        taken = list(self._unseen.values())[:most]
        for check in taken:
            del self._unseen[Ticket.of(check)]
        return taken


class Polls:
    """Of one process. ``may`` decides who is asked; ``clock`` gives seconds.

    ``most`` wait at once, each on a connection. An account has as many as it leaves free for others.
    """

    def __init__(
        self, asking: Asking, may: May, clock: Callable[[], float] = monotonic, most: int = _MOST_POLLS
    ) -> None:
        self._asking = asking
        self._may = may
        self._clock = clock
        self._channels: dict[tuple[str, str], PollChannel] = {}
        self._ending = False
        busy = partial(GatewayError, RefusalReason.BUSY, "Too many polls of this account wait already.")
        self._waiting = FairShares(most, busy)

    async def poll(self, caller: Caller, group: str, most: int, seconds: float) -> list[CheckRequest]:
        """Questions about a group's transactions; waits for the first one.

        From now on, and for a while after it, the group can be asked for.

        Raises:
            GatewayError: too many groups are polled for here, or too many polls of the account wait.
        """
        if self._ending:
            return []
        with self._waiting.of(caller.account) as take:
            take(1)
            channel = self._channel(caller, group)
            channel.polls += 1
            try:
                return await channel.take(most, seconds)
            finally:
                channel.polls -= 1
                channel.polled_at = self._clock()

    def judge_again(self) -> None:
        """Have those leave that poll no more, or may not: to be called now and then."""
        for place, channel in list(self._channels.items()):
            silent = not channel.polls and self._clock() - channel.polled_at >= KEPT_SECONDS
            if silent or not self._may(channel.caller, channel.group):
                self._asking.leave(channel, [channel.group])
                channel.end()
                del self._channels[place]

    def end_all(self) -> None:
        """The gateway ends: nobody is kept waiting."""
        self._ending = True
        for channel in self._channels.values():
            channel.end()

    def _channel(self, caller: Caller, group: str) -> PollChannel:
        place = caller.account, group
        if place not in self._channels:
            own = sum(account == caller.account for account, _ in self._channels)
            if len(self._channels) >= _MOST_CHANNELS or (caller.account and own >= _MOST_OF_ACCOUNT):
                raise GatewayError(RefusalReason.BUSY, "Too many groups are polled for at this gateway already.")
            channel = self._channels[place] = PollChannel(caller, group)
            self._asking.join(channel, group)
        return self._channels[place]
