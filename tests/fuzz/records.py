"""Fuzzed records for the half and the op topic, each with what must become of it. The same seed gives the same records.

Half messages are made first, so that each one's offset is known; then ops, in the order of their topic. Every kind of
broken record breaks one thing, so that its reason is known, too.
"""

from collections import Counter
from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple

from checkback.wire.protocol import Topics
from state.segment import MISSED_REASON
from tests.fuzz import halves, ops
from tests.fuzz.pieces import Headers, Made, NotText

HALF_PARTITIONS = 2


class End(NamedTuple):
    """What becomes of a record: the name of its count, and how its rejection's reason begins."""

    name: str
    reason: str = ""


class Fuzzed(NamedTuple):
    """One record to be written, in the order of its topic."""

    topic: str
    partition: int
    key: bytes | None
    value: bytes | None
    headers: Headers
    kind: str
    end: End


@dataclass
class Fuzz:
    """All records, and what consumers must find in the end."""

    halves: list[Fuzzed] = field(default_factory=list)
    ops: list[Fuzzed] = field(default_factory=list)
    delivered: Counter[bytes] = field(default_factory=Counter)
    """Ids of messages on the real topic; the messages of a bundle have their own."""
    undeliverable: Counter[bytes] = field(default_factory=Counter)
    """Ids of messages in ``cb.parked``: committed, with nowhere to go."""
    undecided: int = 0
    """Half messages that stay open."""
    delayed: int = 0

    @property
    def records(self) -> list[Fuzzed]:
        """Halves and ops."""
        return [*self.halves, *self.ops]

    def ends(self) -> Counter[str]:
        """How many records end in which way."""
        return Counter(record.end.name for record in self.records)


def fuzz(seed: int, count: int, topics: Topics, real_topic: str) -> Fuzz:
    """About ``count`` records in all: two fifths half messages, every second of them broken, and ops.

    The first ``ODD_NAMES`` of each partition have header names that not every client can write.
    """
    random = Random(seed)
    made = Fuzz()
    written = _halves(random, made, halves.Halves(random, topics, real_topic), 2 * count // 5)
    asked = _odd_ops(topics)
    for partition, records in enumerate(written):
        for offset, (half, number) in enumerate(records):
            if not half.reason or random.random() < 0.2:
                _decide(random, made, asked, topics, half, (partition, offset), number)
    strays = ops.Strays(random, [len(records) for records in written])
    for _ in range(count // 5):
        partition = random.randrange(HALF_PARTITIONS)
        op = strays.make(partition)
        end = End("rejected", op.reason)
        at = random.uniform(0, count // 2)
        asked.append((at, Fuzzed(topics.op, partition, op.key, op.value, op.headers, op.kind, end)))
    made.ops = [record for _, record in sorted(asked, key=lambda pair: pair[0])]
    return made


ODD_NAMES = ("\0", "a\0cb-b", "cb-id\0", NotText("name"))
NOT_UTF8 = "a header's name is not UTF-8, or has U+FFFD in it"
ZERO = End("rejected", "a header's name holds a zero byte")


def _halves(random: Random, made: Fuzz, maker: halves.Halves, count: int) -> list[list[tuple[Made, int]]]:
    """Half messages by partition, each with its number; its place in the list is its offset."""
    written: list[list[tuple[Made, int]]] = [[] for _ in range(HALF_PARTITIONS)]
    odd = [(partition, name) for partition in range(HALF_PARTITIONS) for name in ODD_NAMES]
    for number in range(count):
        if number < len(odd):
            partition, name = odd[number]
            good = maker.good(number)
            headers: Headers = [*good.headers[:3], (name, b"1")]
            reason = NOT_UTF8 if isinstance(name, NotText) else ZERO.reason
            half = good._replace(kind="an odd header name", headers=headers, reason=reason)
        else:
            partition, half = random.randrange(HALF_PARTITIONS), maker.make(number)
        written[partition].append((half, number))
        end = End("rejected", half.reason) if half.reason else End("half")
        made.halves.append(Fuzzed(maker.topics.half, partition, half.key, half.value, half.headers, half.kind, end))
    return written


def _odd_ops(topics: Topics) -> list[tuple[float, Fuzzed]]:
    headers: Headers = [("cb-id", b"x"), ("cb-group", b"x"), ("cb-half", b"0:0"), ("cb-action", b"commit")]
    headers.append(("cb-source", b"producer"))
    names = [name for name in ODD_NAMES if not isinstance(name, NotText)]
    kind = "an odd header name"
    return [(-1.0, Fuzzed(topics.op, 0, b"k", b"", [*headers, (name, b"")], kind, ZERO)) for name in names]


Asked = list[tuple[float, Fuzzed]]
"""Ops, each with its place among all."""


def _decide(
    random: Random, made: Fuzz, asked: Asked, topics: Topics, half: Made, place: tuple[int, int], number: int
) -> None:
    """Ops for one half message: near it, long after it or before all others, in an order that is kept."""
    partition, offset = place
    sayings = ops.a_story(random)
    at = sorted(random.choice([0.0, number, number, number + 50.0]) + random.random() for _ in sayings)
    if half.reason:  # nobody is there
        ends = [NOBODY for _ in sayings]
    else:
        ends, state = _told(sayings, delayed=half.delayed)
        if state == "committed":
            made.delivered.update(half.deliveries)
            made.undeliverable.update(half.undeliverable)
        made.undecided += state == "open"
        made.delayed += state == "delayed"
    for when, saying, end in zip(at, sayings, ends, strict=True):
        op = ops.spelled(random, saying, half, f"{partition}:{offset}")
        asked.append((when, Fuzzed(topics.op, partition, op.key, op.value, op.headers, saying.kind, end)))


NOBODY = End("rejected", MISSED_REASON)
FOREIGN = End("rejected", "its cb-id or cb-group is not that of the half message")
CONFLICT = End("rejected", "it contradicts the decision already taken")


def _told(sayings: list[ops.Saying], *, delayed: bool) -> tuple[list[End], str]:
    """What becomes of each op of a half message that no timer is due for, and of the half message itself."""
    state = "open"
    ends = []
    for saying in sayings:
        if saying.foreign and state in {"open", "delayed"}:
            ends.append(FOREIGN)
        elif saying.action in {"commit", "rollback"}:
            wanted = "rolled_back" if saying.action == "rollback" else "delayed" if delayed else "committed"
            ends.append(End("applied") if state == "open" else End("duplicate") if state == wanted else CONFLICT)
            state = wanted if state == "open" else state
        elif saying.action == "resume":
            ends.append(End("duplicate") if state == "open" else CONFLICT)
        elif saying.source == "check" and state == "open":  # an answer that nobody asked for
            ends.append(End("duplicate"))
        else:
            ends.append(End("without_effect"))
    return ends, state
