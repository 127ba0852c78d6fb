"""Sets a group to other offsets, whether it runs or not, and says who has done it."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from checkback.consumer.listener import ReceivedMessage, TopicPartition
from checkback.consumer.resetting.control import ControlRecords, ResetDone, ResetOrder, is_done
from checkback.consumer.resetting.group_offsets import GroupMember
from checkback.exceptions import ProtocolError

_REPEAT_SECONDS = 1.0

BY_COMMAND = "this command: the group had no members"


class Group(Protocol):
    """A :class:`~checkback.consumer.resetting.group_offsets.GroupOffsets`."""

    def members(self) -> list[GroupMember]:
        """Who is in the group now."""

    def set(self, offsets: Mapping[TopicPartition, int]) -> bool:
        """Store offsets in the group's place; False: it has members."""


@dataclass
class Report:
    """What has become of an order."""

    done: dict[int, ResetDone] = field(default_factory=dict)
    """By partition."""
    waited_for: dict[int, GroupMember | None] = field(default_factory=dict)
    """Partitions of which nothing was heard, and who has them; None: nobody."""


class ResetRun:
    """An order, until all of its partitions are set or the time is over.

    1. A group without members: store the offsets in its place. Kafka refuses that where it has some.
    2. One with members: write the order for those partitions that have not been reported, each second, and read what
       consumers say. One that joins meanwhile hears of it, too, and a record that is lost changes nothing.
    3. Take the order and the reports out of the control topic.

    Args:
        order: what is to be done.
        stored: offsets of the group before, by partition, for the report.
        group: as the brokers know it.
        control: opens the control topic, where it is needed; may raise CheckbackError.
        clock: seconds.
    """

    def __init__(
        self,
        order: ResetOrder,
        stored: Mapping[int, int | None],
        group: Group,
        control: Callable[[], ControlRecords],
        clock: Callable[[], float],
    ) -> None:
        self._order = order
        self._stored = stored
        self._group = group
        self._open = control
        self._control: ControlRecords | None = None
        self._clock = clock
        self._report = Report()

    def run(self, seconds: float) -> Report:
        """Wait until it is done, for so long at most.

        Raises:
            CheckbackError: Kafka failed. What was reported until then is done.
        """
        until = self._clock() + seconds
        members: list[GroupMember] = []
        try:
            while left := self._left():
                members = self._group.members()
                if (not members and self._set(left)) or self._clock() >= until:
                    break
                self._ask(left, min(self._clock() + _REPEAT_SECONDS, until))
        finally:
            self._take_back()
        for partition in self._left():
            wanted = TopicPartition(self._order.topic, partition)
            owner = next((member for member in members if wanted in member.partitions), None)
            self._report.waited_for[partition] = owner
        return self._report

    def _ask(self, left: Mapping[int, int], until: float) -> None:
        """Reading ends with the first record that comes, and the order itself is one: read on until it is time."""
        if self._control is None:
            self._control = self._open()
        self._control.write({self._order.key: replace(self._order, offsets=left).value})
        while True:
            self._hear(self._control.read(max(0.0, until - self._clock())))
            if not self._left() or self._clock() >= until:
                return

    def _take_back(self) -> None:
        if self._control is not None:
            said = {done.key: None for done in self._report.done.values()}
            self._control.write({self._order.key: None, **said})

    def _left(self) -> dict[int, int]:
        done = self._report.done
        return {one: offset for one, offset in self._order.offsets.items() if one not in done}

    def _set(self, left: Mapping[int, int]) -> bool:
        if not self._group.set({TopicPartition(self._order.topic, one): offset for one, offset in left.items()}):
            return False
        for partition, offset in left.items():
            before = self._stored.get(partition)
            done = ResetDone(self._order.id, partition, offset if before is None else before, offset, BY_COMMAND)
            self._report.done[partition] = done
        return True

    def _hear(self, records: Iterable[ReceivedMessage]) -> None:
        for record in records:
            if not is_done(record.key) or record.value is None:
                continue
            try:
                done = ResetDone.parse(record.value)
            except ProtocolError:  # somebody else's
                continue
            if done.id == self._order.id and done.partition in self._order.offsets:
                self._report.done[done.partition] = done
