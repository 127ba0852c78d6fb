"""What the reference model knows of a half message, and of an op that waits for one."""

from collections import Counter
from dataclasses import dataclass, field, replace

from tests.state.records import Check, Half, Message, Op, Status

KEPT = 4_096
REMARK = 512
SMALL = 65_536
"""Bytes that a message is kept with, and of a value that a check has."""


@dataclass
class Transaction:
    """What is known of one half message."""

    half: Half
    ingested_ms: int
    deadline_ms: int
    check_max: int
    state: str = "open"
    asked_ms: int | None = None
    attempts: int = 0
    misses: int = 0
    remark: bytes | None = None
    """Of the last answer."""
    answer: str = ""
    settled: bool = False
    """Whether it is known that the lane has not delivered it, and never will."""
    contested: bool = False
    """Whether only the real topic tells."""

    @property
    def undecided(self) -> bool:
        return self.state in {"open", "checking"}

    @property
    def kept(self) -> bool:
        return self.state in {"open", "checking", "parked", "delayed", "undeliverable"}

    @property
    def unsettled(self) -> bool:
        return self.half.lane >= 0 and not self.settled

    def refuses(self, op: Op) -> bool:
        """Whether the lane may have done otherwise than the op would have it."""
        if self.undecided:
            return self.unsettled and op.says.endswith(("commit", "rollback"))
        if self.state != "parked":
            return False
        if self.contested and op.says == "resume":
            return True
        return op.says.startswith("operator") and (not op.settled if self.contested else self.unsettled)

    @property
    def size(self) -> int:
        return max(self.half.left_out, 0) + length_of(self.half.key, self.half.value, self.half.headers)

    def set_aside(self) -> None:
        """At the end of the step in which it came: only small content is kept."""
        if self.half.left_out < 0 and self.size > KEPT:
            self.half = replace(self.half, value=None, left_out=length_of(self.half.value))
        if self.half.left_out >= 0 and length_of(self.half.key, self.half.headers) > KEPT:
            key = self.half.key if length_of(self.half.key) <= KEPT else None
            self.half = replace(self.half, key=key, headers=None, left_out=self.size - length_of(key))

    def message(self) -> Message:
        half = self.half
        return Message(
            *(half.offset, half.transaction_id, half.group, half.topic, half.partition),
            *(half.key, half.value, half.headers, self.ingested_ms, half.left_out),
        )

    def check(self, attempt: int) -> Check:
        half = self.half
        value_size = half.left_out if half.left_out >= 0 else length_of(half.value)
        not_there = half.left_out >= 0 or value_size > SMALL
        message = self.message()._replace(left_out=-1, value=None if not_there else half.value)
        return Check(message, attempt, self.check_max, value_size if not_there else -1, half.lane_name or "")

    def status(self, attempt: int = -1, pause_ms: int = -1) -> Status:
        half = self.half
        names = (half.transaction_id, half.group, half.topic)
        check_max = self.check_max if attempt >= 0 else -1
        return Status(half.offset, *names, self.ingested_ms, attempt, check_max, pause_ms=pause_ms)

    def told(self, now_ms: int) -> Status:
        """Its status after the last answer."""
        unknown = self.misses == 0
        return self.status(self.attempts + (not unknown), max(0, self.deadline_ms - now_ms))._replace(
            reason="unknown" if unknown else "unreachable",
            asked_ago_ms=now_ms - (self.asked_ms or 0),
            misses=self.misses,
            remark=(self.remark or b"")[:REMARK],
        )


def length_of(*contents: bytes | str | None) -> int:
    return sum(len(content or "") for content in contents)


@dataclass
class Waiting:
    """An op that came before its half message."""

    op: Op
    came_ms: int


@dataclass
class Spent:
    """Of the limits of a step."""

    events: int = 0
    payload: int = 0
    of_group: Counter[str] = field(default_factory=Counter)
