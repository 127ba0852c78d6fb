"""Where a group would go on: a target, and what it comes to for each partition. No Kafka, no clock."""

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from enum import StrEnum
from typing import NamedTuple, Self

from checkback.exceptions import OperatorError

_UNITS_MS = {"s": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}


class Goal(StrEnum):
    """The kinds of targets."""

    EARLIEST = "earliest"
    LATEST = "latest"
    TIME = "time"
    BY = "by"


class Target(NamedTuple):
    """Where to."""

    goal: Goal
    number: int = 0
    """Of a time, ms since 1970; of ``BY``, so many messages forward, or back."""

    @classmethod
    def parse(cls, text: str, now_ms: int) -> Self:
        """Read a target.

        Args:
            text: ``earliest``, ``latest``, ``+100`` or ``-100`` messages, an age as ``-30m`` (``s``, ``m``, ``h``,
                ``d``), or a time as ``2026-11-22T12:00``, UTC unless it says.
            now_ms: since when an age counts, ms since 1970.

        Raises:
            OperatorError: it is none of these.
        """
        if text in {Goal.EARLIEST, Goal.LATEST}:
            return cls(Goal(text))
        if re.fullmatch(r"[+-][0-9]{1,18}", text):
            return cls(Goal.BY, int(text))
        age = re.fullmatch(r"-([0-9]{1,9}) ?(s|m|min|h|d)", text)
        if age:
            return cls(Goal.TIME, max(0, now_ms - int(age[1]) * _UNITS_MS[age[2]]))
        try:
            time = datetime.fromisoformat(text)
        except ValueError as error:
            raise OperatorError(
                f"{text!r} is not a place to go to: write earliest, latest, +100 or -100 messages, -30m (s, m, h, d), "
                "or a time as 2026-11-22T12:00 (UTC; or 2026-11-22T12:00+01:00)."
            ) from error
        time = time.replace(tzinfo=UTC) if time.tzinfo is None else time
        ms = int(time.timestamp() * 1000)
        if ms < 0:
            raise OperatorError(f"{text} is before 1970.")
        return cls(Goal.TIME, ms)


class PartitionOffsets(NamedTuple):
    """What is known of one partition of a group."""

    partition: int
    minimum: int
    maximum: int
    stored: int | None = None
    """None: the group has stored none."""
    at_time: int | None = None
    """Of the first message at the target's time or later; None: there is none."""

    @property
    def lag(self) -> int | None:
        """Offsets behind the end, those of transaction ends among them; None: the group has stored none."""
        return None if self.stored is None else max(0, self.maximum - self.stored)


class Direction(StrEnum):
    """What a target means for a partition."""

    BACK = "back"
    """Messages are read again."""
    FORWARD = "forward"
    """Messages are passed over."""
    NEITHER = "stays"
    """It is there."""
    FIRST = "first"
    """The group has stored no offset there."""


class Move(NamedTuple):
    """What becomes of one partition."""

    partition: int
    before: int | None
    after: int
    direction: Direction
    done: bool
    """False: it stays where it is, or lies forward and that was not allowed."""


def plan(offsets: Iterable[PartitionOffsets], target: Target, *, force: bool) -> list[Move]:
    """What a target comes to, partition by partition; never outside of what a partition has.

    Without ``force`` no partition goes forward (RocketMQ's ``isForce``): messages would never be read.

    Raises:
        OperatorError: so many messages forward or back of where nothing is stored.
    """
    return [_move(one, _aim(one, target), force=force) for one in sorted(offsets)]


def _aim(one: PartitionOffsets, target: Target) -> int:
    if target.goal is Goal.EARLIEST:
        return one.minimum
    if target.goal is Goal.LATEST:
        return one.maximum
    if target.goal is Goal.TIME:
        return one.maximum if one.at_time is None else one.at_time
    if one.stored is None:
        raise OperatorError(
            f"The group has stored no offset for partition {one.partition}, so there is nothing to count from: name "
            "earliest, latest or a time, or other partitions."
        )
    return one.stored + target.number


def _move(one: PartitionOffsets, aim: int, *, force: bool) -> Move:
    after = min(max(aim, one.minimum), one.maximum)
    if one.stored is None:
        return Move(one.partition, None, after, Direction.FIRST, done=True)
    if after == one.stored:
        return Move(one.partition, one.stored, after, Direction.NEITHER, done=False)
    if after < one.stored:
        return Move(one.partition, one.stored, after, Direction.BACK, done=True)
    return Move(one.partition, one.stored, after, Direction.FORWARD, done=force)
