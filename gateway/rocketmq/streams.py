"""Clients of RocketMQ's that are connected, each with the stream on which it is asked."""

import asyncio
import logging
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable

from access.credentials import Caller
from checkback.wire.checks import CheckRequest
from gateway.asking import Asking
from gateway.rocketmq.messages import orphaned
from gateway.rocketmq.v2 import definition_pb2 as v2
from gateway.rocketmq.v2.service_pb2 import TelemetryCommand

_LOGGER = logging.getLogger(__name__)
_MOST_CLIENTS = 100_000
_MOST_GROUPS = 1_000
"""Of one client."""
_MOST_OF_ACCOUNT = 10_000
"""Groups that all clients of an account name together: each is announced every ten seconds."""
_MOST_WAITING = 1_000
_MOST_WAITING_BYTES = 16 << 20
_ANY_SIZE = frozenset({v2.JAVA, v2.PYTHON})
"""Clients that have no limit of what they receive."""

Seal = Callable[[CheckRequest], str]
"""The transaction id that a client ends a checked transaction with."""
May = Callable[[Caller, str], bool]
"""Whether somebody may answer for a producer group."""
ClientName = tuple[str, str]
"""Account and client id: whoever knows another account's client id is still another client."""


class ClientStream:
    """One telemetry stream. What the client is to be told waits, up to a bound: one that does not read is cut off."""

    def __init__(self, client_id: str, caller: Caller, seal: Seal) -> None:
        self.client_id, self.caller = client_id, caller
        self.groups = set[str]()
        self.language = v2.LANGUAGE_UNSPECIFIED
        self._seal = seal
        self._waiting: deque[TelemetryCommand] = deque()
        self._waiting_bytes = 0
        self._came = asyncio.Event()
        self._ended = False

    @property
    def name(self) -> ClientName:
        """Whose it is."""
        return self.caller.account, self.client_id

    @property
    def listening(self) -> bool:
        """See :class:`~gateway.asking.Channel`."""
        return not self._ended

    def hand(self, check: CheckRequest) -> None:
        """See :class:`~gateway.asking.Channel`."""
        lower_case, any_size = self.language == v2.GOLANG, self.language in _ANY_SIZE
        command = orphaned(check, self._seal(check), lower_case=lower_case, any_size=any_size)
        self.tell(TelemetryCommand(recover_orphaned_transaction_command=command))

    def take_back(self, check: CheckRequest) -> bool:  # noqa: ARG002  (what is on its way is on its way)
        """See :class:`~gateway.asking.Channel`."""
        return False

    def tell(self, command: TelemetryCommand) -> None:
        """Have it sent."""
        size = command.ByteSize()
        if len(self._waiting) >= _MOST_WAITING or self._waiting_bytes + size > _MOST_WAITING_BYTES:
            _LOGGER.warning("Client %.80s does not read what it is sent: its stream is ended.", self.client_id)
            self.end()
            return
        self._waiting.append(command)
        self._waiting_bytes += size
        self._came.set()

    def end(self) -> None:
        """Have it ended; what waits is not sent any more."""
        self._ended = True
        self._came.set()

    async def next(self) -> TelemetryCommand | None:
        """What is to be sent next; None: it ends."""
        while not self._waiting and not self._ended:
            self._came.clear()
            await self._came.wait()
        if self._ended:
            return None
        command = self._waiting.popleft()
        self._waiting_bytes -= command.ByteSize()
        return command


class ClientStreams:
    """Which client can be asked about which groups.

    A client says what it sends to in several ways, and not all of them do in each: in its settings, by the routes that
    it asks for, by what it sends. ``may`` decides what of it counts.
    """

    def __init__(self, asking: Asking, may: May) -> None:
        self._asking = asking
        self._may = may
        self._streams: dict[ClientName, dict[ClientStream, None]] = {}
        self._named: OrderedDict[ClientName, set[str]] = OrderedDict()
        """Groups by client, whether it has a stream or not: the one heard from last is at the end."""
        self._of_account: defaultdict[str, Counter[str]] = defaultdict(Counter)
        """How many clients of an account name a group."""

    def has(self, caller: Caller, client_id: str) -> bool:
        """Whether a client has a stream here."""
        return (caller.account, client_id) in self._streams

    def open(self, stream: ClientStream) -> None:
        """A client has opened a stream."""
        self._streams.setdefault(stream.name, {})[stream] = None
        self._join(stream, self._named.get(stream.name, ()))

    def close(self, stream: ClientStream) -> None:
        """It has ended."""
        streams = self._streams.get(stream.name, {})
        streams.pop(stream, None)
        if not streams:
            self._streams.pop(stream.name, None)
        self._leave(stream, set(stream.groups))

    def sends_as(self, caller: Caller, client_id: str, groups: Iterable[str]) -> None:
        """A client has said that it sends as these groups; those that it may not send as do not count."""
        name = caller.account, client_id
        named = self._named.setdefault(name, set())
        self._named.move_to_end(name)
        if len(self._named) > _MOST_CLIENTS:
            (account, _), gone = self._named.popitem(last=False)
            self._uncount(account, gone)
        new = {group for group in groups if group not in named and self._may(caller, group)}
        if not new:
            return
        known = self._of_account[caller.account]
        for group in sorted(new)[: _MOST_GROUPS - len(named)]:
            if known[group] or len(known) < _MOST_OF_ACCOUNT:
                known[group] += 1
                named.add(group)
        for stream in self._streams.get(name, ()):
            self._join(stream, new & named)

    def forget(self, caller: Caller, client_id: str) -> None:
        """A client has said that it ends: nobody asks it any more."""
        name = caller.account, client_id
        self._uncount(caller.account, self._named.pop(name, set()))
        for stream in list(self._streams.get(name, ())):
            self._leave(stream, set(stream.groups))
            stream.end()

    def _uncount(self, account: str, groups: set[str]) -> None:
        known = self._of_account[account]
        for group in groups:
            known[group] -= 1
            if not known[group]:
                del known[group]

    def end_all(self) -> None:
        """The gateway ends."""
        for streams in self._streams.values():
            for stream in streams:
                stream.end()

    def judge_again(self) -> None:
        """Have those leave that may not answer for a group any more, and those join that may now: policies change."""
        for streams in self._streams.values():
            for stream in streams:
                self._leave(stream, {group for group in stream.groups if not self._may(stream.caller, group)})
                self._join(stream, self._named.get(stream.name, ()))

    def _join(self, stream: ClientStream, groups: Iterable[str]) -> None:
        for group in groups:
            if group not in stream.groups and self._may(stream.caller, group):
                stream.groups.add(group)
                self._asking.join(stream, group)

    def _leave(self, stream: ClientStream, groups: set[str]) -> None:
        stream.groups -= groups
        self._asking.leave(stream, groups)
