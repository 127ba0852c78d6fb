"""What is known of topics that refuse records: pure, so that a record is judged before it is sent."""

import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from time import monotonic
from typing import NamedTuple

from checkback.kafka.kafka_python.library import murmur2
from streaming.batch.record import Record, RecordKey, batch_bytes, record_key

UNLIMITED = 2**63 - 1
_LEAST_TRIED = 2_048


class Refusal(NamedTuple):
    """Why a record is not taken."""

    reason: str
    passing: bool
    """It is the topic's fault, which may be well again; False: the record's own."""
    pause_ms: int = 0
    """When it may be well; 0: nobody knows."""


def chosen_partition(record: Record, partitions: int, away: Mapping[int, str] = {}) -> int:
    """As ``murmur2_random`` chooses it; -1 when there is none but such as are ``away``."""
    if record.partition >= 0:
        return record.partition
    if record.key is not None:
        return int((murmur2(record.key) & 0x7FFFFFFF) % partitions)
    there = [number for number in range(partitions) if number not in away] if away else range(partitions)
    return random.choice(there) if there else -1  # noqa: S311  (no secret)


@dataclass(frozen=True)
class TopicLimits:
    """What one topic refuses."""

    refused: str = ""
    """Why it takes nothing at all, for the time being; empty when it does."""
    fits: int = UNLIMITED
    """A batch of up to so many bytes is taken."""
    too_large_from: int = UNLIMITED
    """A batch of so many bytes or more is not."""
    needs_key: bool = False
    tried: bool = False
    """``refused`` is what Kafka answered to a record; False: what it says of the topic."""

    def refusal(self, record: Record) -> Refusal | None:
        """Why the topic does not take this record, alone in a batch; None when nothing says that it does not."""
        if self.needs_key and record.key is None:
            return Refusal("that topic is compacted, and the message has no key", passing=False)
        if self.too_large_from < UNLIMITED and (size := batch_bytes(record)) >= self.too_large_from:
            most = f"that topic takes fewer than {self.too_large_from:,} (max.message.bytes)"
            return Refusal(f"it has {size:,} bytes, and {most}", passing=False)
        return Refusal(self.refused, passing=True) if self.refused else None


UNTRIED = "that topic refuses some messages and does not say which, and they are tried one by one"


@dataclass(frozen=True)
class KnownLimits:
    """What a pass over a batch goes by."""

    topics: Mapping[str, TopicLimits] = field(default_factory=dict)
    records: Mapping[RecordKey, str] = field(default_factory=dict)
    """Records found to be refused one by one, with the reason; their topics are in ``topics``."""
    untried: frozenset[int] = frozenset()
    """Hashes of the keys of those that there was no time to try; likewise."""

    def refusal(self, record: Record) -> Refusal | None:
        """Why this record is not taken; None when nothing says so."""
        rule = self.topics.get(record.topic)
        if rule is None:
            return None
        why = self.records.get(record_key(record)) if self.records else None
        found = rule.refusal(record) or (Refusal(why, passing=False) if why else None)
        if found is None and self.untried and hash(record_key(record)) in self.untried:
            return Refusal(UNTRIED, passing=True)
        return found

    def room(self, record: Record) -> int | None:
        """Bytes to which a record has to be cut for its topic to take it; None where its size is not the reason."""
        rule = self.topics.get(record.topic)
        if rule is None:
            return None
        size = batch_bytes(record)
        if size < rule.too_large_from and (size <= rule.fits or record_key(record) not in self.records):
            return None
        if rule.fits > 1:
            return rule.fits
        # what fits is not known: less, and less again at the next refusal
        return max(_LEAST_TRIED, min(size, rule.too_large_from) // 2)

    def joined(self, other: "KnownLimits") -> "KnownLimits":
        """Both; the other's limits win for a topic that both know."""
        untried = self.untried | other.untried
        return KnownLimits({**self.topics, **other.topics}, {**self.records, **other.records}, untried)


class LearnedLimits:
    """What a worker process has learnt about topics, believed for ``seconds``; ``clock`` is in seconds.

    So a topic that is bad for hours costs a question, or else a failed pass, once in that time and not in each batch.
    """

    def __init__(self, seconds: float = 60.0, clock: Callable[[], float] = monotonic) -> None:
        self._seconds = seconds
        self._clock = clock
        self._rules: dict[str, TopicLimits] = {}
        self._until: dict[str, float] = {}

    def learn(self, rules: Mapping[str, TopicLimits]) -> None:
        """Believe these from now on."""
        self._rules.update(rules)
        self._until.update(dict.fromkeys(rules, self._clock() + self._seconds))

    def believed(self, ask: Callable[[Iterable[str]], Mapping[str, TopicLimits]]) -> dict[str, TopicLimits]:
        """All rules that are believed; ``ask`` is given the topics whose time is over, and gives their rules again."""
        over = [topic for topic, until in self._until.items() if until <= self._clock()]
        if over:
            for topic in over:
                del self._rules[topic], self._until[topic]
            self.learn(ask(over))
        return dict(self._rules)
