"""Clients of RocketMQ's that are connected, each with the stream on which it is asked."""

import asyncio
import logging
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable
from time import monotonic

from access.credentials import Caller
from checkback.wire.checks import CheckRequest
from gateway.asking import Asking, May
from gateway.rocketmq.messages import orphaned
from gateway.rocketmq.v2 import definition_pb2 as v2
from gateway.rocketmq.v2.service_pb2 import TelemetryCommand

_LOGGER = logging.getLogger(__name__)
_MOST_CLIENTS = 5_000
"""Of one account: a further one takes the place of the one that was silent for longest."""
_MOST_STREAMS = 4
"""Of one client: one for each spelling of the address, and some that it has given up. Further ones end the oldest."""
_MOST_GROUPS = 1_000
"""Of one client."""
_MOST_OF_ACCOUNT = 10_000
"""Groups that all clients of an account name together: each is announced every ten seconds."""
_MOST_NAMED = 50_000
"""Groups of all clients of an account, counted for each client that names them."""
_KEPT_SECONDS = 600.0
"""What a client without a stream has named. Clients ask for their routes every 30 s."""
_MOST_WAITING = 1_000
_MOST_WAITING_BYTES = 16 << 20
_ANY_SIZE = frozenset({v2.JAVA, v2.PYTHON})
"""Clients that have no limit of what they receive."""

Seal = Callable[[CheckRequest], str]
"""The transaction id that a client ends a checked transaction with."""
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


class _Client:
    """What is known of a client, whether it has a stream or not."""

    def __init__(self) -> None:
        self.groups = set[str]()
        self.respelled: bool | None = None
        """Whether its last route had the address in another spelling; None: it had no route yet."""
        self.heard_at = 0.0


class _Account:
    """The clients of an account, the one heard from last at the end."""

    def __init__(self) -> None:
        self.clients: OrderedDict[str, _Client] = OrderedDict()
        self._groups = Counter[str]()
        """How many clients name a group."""
        self._named = 0

    def heard(self, client_id: str, now: float) -> _Client:
        client = self.clients.setdefault(client_id, _Client())
        self.clients.move_to_end(client_id)
        client.heard_at = now
        if len(self.clients) > _MOST_CLIENTS:
            self.forget(next(iter(self.clients)))
        return client

    def name(self, client: _Client, groups: set[str]) -> None:
        for group in sorted(groups)[: min(_MOST_GROUPS - len(client.groups), _MOST_NAMED - self._named)]:
            if group in self._groups or len(self._groups) < _MOST_OF_ACCOUNT:
                self._groups[group] += 1
                self._named += 1
                client.groups.add(group)

    def forget(self, client_id: str) -> None:
        client = self.clients.pop(client_id, _Client())
        self._groups.subtract(client.groups)
        self._named -= len(client.groups)
        for group in client.groups:
            if not self._groups[group]:
                del self._groups[group]


class ClientStreams:
    """Which client can be asked about which groups.

    A client says what it sends to in several ways, and not all of them do in each: in its settings, by the routes that
    it asks for, by what it sends. ``may`` decides what of it counts; ``clock`` gives seconds.
    """

    def __init__(self, asking: Asking, may: May, clock: Callable[[], float] = monotonic) -> None:
        self._asking = asking
        self._may = may
        self._clock = clock
        self._streams: dict[ClientName, dict[ClientStream, None]] = {}
        self._accounts: defaultdict[str, _Account] = defaultdict(_Account)

    def has(self, caller: Caller, client_id: str) -> bool:
        """Whether a client has a stream here."""
        return (caller.account, client_id) in self._streams

    def open(self, stream: ClientStream) -> None:
        """A client has opened a stream."""
        streams = self._streams.setdefault(stream.name, {})
        streams[stream] = None
        for older in list(streams)[:-_MOST_STREAMS]:
            older.end()
        self._join(stream, self._groups_of(stream))

    def close(self, stream: ClientStream) -> None:
        """It has ended."""
        streams = self._streams.get(stream.name, {})
        streams.pop(stream, None)
        if not streams:
            self._streams.pop(stream.name, None)
        self._leave(stream, set(stream.groups))

    def sends_as(self, caller: Caller, client_id: str, groups: Iterable[str]) -> None:
        """A client has said that it sends as these groups; those that it may not send as do not count."""
        account = self._accounts[caller.account]
        client = account.heard(client_id, self._clock())
        new = {group for group in groups if group not in client.groups and self._may(caller, group)}
        account.name(client, new)
        for stream in self._streams.get((caller.account, client_id), ()):
            self._join(stream, new & client.groups)

    def respells(self, caller: Caller, client_id: str) -> bool:
        """Whether a client's next route has the client's own address in another spelling.

        Python's client opens a stream to an address that is new to it, and after a restart of the gateway to no other,
        for minutes. A client that asks again and has no stream gets the other spelling of the same address; one that
        has a stream gets what it got before.
        """
        client = self._accounts[caller.account].heard(client_id, self._clock())
        if client.respelled is None or not self.has(caller, client_id):
            client.respelled = client.respelled is False
        return client.respelled

    def forget(self, caller: Caller, client_id: str) -> None:
        """A client has said that it ends: nobody asks it any more."""
        self._accounts[caller.account].forget(client_id)
        for stream in list(self._streams.get((caller.account, client_id), ())):
            self._leave(stream, set(stream.groups))
            stream.end()

    def end_all(self) -> None:
        """The gateway ends."""
        for streams in self._streams.values():
            for stream in streams:
                stream.end()

    def judge_again(self) -> None:
        """Have those leave that may not answer for a group any more, and those join that may now: policies change.

        Clients that are gone without a word are forgotten.
        """
        for streams in self._streams.values():
            for stream in streams:
                self._leave(stream, {group for group in stream.groups if not self._may(stream.caller, group)})
                self._join(stream, self._groups_of(stream))
        until = self._clock() - _KEPT_SECONDS
        for name, account in self._accounts.items():
            silent = [client_id for client_id, client in account.clients.items() if client.heard_at < until]
            for client_id in silent:
                if (name, client_id) not in self._streams:
                    account.forget(client_id)

    def _groups_of(self, stream: ClientStream) -> set[str]:
        client = self._accounts[stream.caller.account].clients.get(stream.client_id)
        return client.groups if client else set()

    def _join(self, stream: ClientStream, groups: Iterable[str]) -> None:
        for group in groups:
            if group not in stream.groups and self._may(stream.caller, group):
                stream.groups.add(group)
                self._asking.join(stream, group)

    def _leave(self, stream: ClientStream, groups: set[str]) -> None:
        stream.groups -= groups
        self._asking.leave(stream, groups)
