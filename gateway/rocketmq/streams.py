"""Clients of RocketMQ's that are connected, each with the stream on which it is asked."""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

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
_MOST_WAITING = 10_000
_ANY_SIZE = frozenset({v2.JAVA, v2.PYTHON})
"""Clients that have no limit of what they receive."""

Seal = Callable[[CheckRequest], str]
"""The transaction id that a client ends a checked transaction with."""
May = Callable[[Caller, str], bool]
"""Whether somebody may answer for a producer group."""


@dataclass(eq=False)
class ClientStream:
    """One telemetry stream. What it is to be told waits in ``outgoing``; None ends it."""

    client_id: str
    caller: Caller
    seal: Seal
    outgoing: "asyncio.Queue[TelemetryCommand | None]" = field(default_factory=lambda: asyncio.Queue(_MOST_WAITING))
    groups: set[str] = field(default_factory=set)
    language: v2.Language = v2.LANGUAGE_UNSPECIFIED

    @property
    def listening(self) -> bool:
        """See :class:`~gateway.asking.Channel`: while there is a stream, its client reads it."""
        return True

    def hand(self, check: CheckRequest) -> None:
        """See :class:`~gateway.asking.Channel`."""
        lower_case, any_size = self.language == v2.GOLANG, self.language in _ANY_SIZE
        command = orphaned(check, self.seal(check), lower_case=lower_case, any_size=any_size)
        self.tell(TelemetryCommand(recover_orphaned_transaction_command=command))

    def take_back(self, check: CheckRequest) -> bool:  # noqa: ARG002  (what is on its way is on its way)
        """See :class:`~gateway.asking.Channel`."""
        return False

    def tell(self, command: TelemetryCommand | None) -> None:
        """Have it sent; a client that reads nothing misses what comes when ten thousand wait."""
        try:
            self.outgoing.put_nowait(command)
        except asyncio.QueueFull:
            _LOGGER.debug("Client %s does not read what it is sent", self.client_id)


class ClientStreams:
    """Which client can be asked about which groups.

    A client says what it sends to in several ways, and not all of them do in each: in its settings, by the routes that
    it asks for, by what it sends. ``may`` decides what of it counts.
    """

    def __init__(self, asking: Asking, may: May) -> None:
        self._asking = asking
        self._may = may
        self._streams: dict[str, dict[ClientStream, None]] = {}
        self._named: OrderedDict[str, set[str]] = OrderedDict()
        """Groups by client, whether it has a stream or not: the one heard from last is at the end."""

    def has(self, client_id: str) -> bool:
        """Whether a client has a stream here."""
        return client_id in self._streams

    def open(self, stream: ClientStream) -> None:
        """A client has opened a stream."""
        self._streams.setdefault(stream.client_id, {})[stream] = None
        self._join(stream, self._named.get(stream.client_id, ()))

    def close(self, stream: ClientStream) -> None:
        """It has ended."""
        streams = self._streams.get(stream.client_id, {})
        streams.pop(stream, None)
        if not streams:
            self._streams.pop(stream.client_id, None)
        self._asking.leave(stream, stream.groups)
        stream.groups.clear()

    def sends_as(self, client_id: str, groups: Iterable[str]) -> None:
        """A client has said that it sends as these groups."""
        named = self._named.setdefault(client_id, set())
        self._named.move_to_end(client_id)
        if len(self._named) > _MOST_CLIENTS:
            self._named.popitem(last=False)
        new = set(groups) - named
        if not new:
            return
        named.update(sorted(new)[: _MOST_GROUPS - len(named)])
        for stream in self._streams.get(client_id, ()):
            self._join(stream, new & named)

    def end(self, client_id: str, caller: Caller) -> None:
        """A client has said that it ends: nobody asks it any more."""
        self._named.pop(client_id, None)
        for stream in list(self._streams.get(client_id, ())):
            if stream.caller == caller:
                stream.tell(None)
                self._asking.leave(stream, stream.groups)
                stream.groups.clear()

    def end_all(self) -> None:
        """The gateway ends."""
        for streams in self._streams.values():
            for stream in streams:
                stream.tell(None)

    def judge_again(self) -> None:
        """Have those leave that may not answer for a group any more, and those join that may now: policies change."""
        for streams in self._streams.values():
            for stream in streams:
                lost = {group for group in stream.groups if not self._may(stream.caller, group)}
                stream.groups -= lost
                self._asking.leave(stream, lost)
                self._join(stream, self._named.get(stream.client_id, ()))

    def _join(self, stream: ClientStream, groups: Iterable[str]) -> None:
        for group in groups:
            if group not in stream.groups and self._may(stream.caller, group):
                stream.groups.add(group)
                self._asking.join(stream, group)
