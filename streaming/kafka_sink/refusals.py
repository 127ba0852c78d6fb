"""Finds out which records Kafka refused, and why: asks the brokers, and where they do not say, tries.

Only after a transaction has failed: see docs/decisions/0010-refused-records.md.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from time import monotonic
from typing import Any

from checkback.kafka.librdkafka.errors import REFUSES_ALL, TOO_LARGE
from checkback.kafka.librdkafka.library import KafkaError, KafkaException
from streaming.batch.record import Record, batch_bytes, record_key
from streaming.brokers.directory import Known
from streaming.kafka_sink.probe import describe_limits, probe_individually
from streaming.kafka_sink.records import Ask, RecordBuilder
from streaming.kafka_sink.spill import ReplayableBatches
from streaming.kafka_sink.topic_limits import KnownLimits, LearnedLimits, TopicLimits
from streaming.kafka_sink.transaction import NOT_NOW, TopicsRefusedError

_TRIED_AT_ONCE = 1_000
_TRYING_SECONDS = 10.0
"""For one topic and pass; those of its messages that are left then are held, for a later batch to try."""

Build = Callable[[Known, KnownLimits, Ask | None], RecordBuilder]


@dataclass
class _Sent:
    """What a failed pass has sent, or would have sent, to one topic."""

    largest: int = 0
    without_key: bool = False

    def refused_by(self, rule: TopicLimits | None) -> bool:
        if rule is None:
            return False
        keyless = rule.needs_key and self.without_key
        return bool(rule.refused) or keyless or self.largest >= rule.too_large_from


class Refusals:
    """What a task knows of records that are refused, and how it learns more.

    ``client`` gives the settings of the sink's producers, ``plain`` are those of any librdkafka client; ``build`` makes
    a builder of records as the passes have it; ``dated_ms`` is the time stamp of all records.
    """

    def __init__(
        self,
        client: Callable[[], dict[str, Any]],
        plain: dict[str, Any],
        build: Build,
        known: LearnedLimits,
        pieces: ReplayableBatches,
        dated_ms: int,
    ) -> None:
        self._client = client
        self._plain = plain
        self._build = build
        self._known = known
        self._pieces = pieces
        self._dated_ms = dated_ms
        self._standings: Known | None = None
        codecs = {plain.get(name, "none") for name in ("compression.type", "compression.codec")}
        self._compressed = codecs != {"none"}

    def known(self) -> KnownLimits:
        """What this worker process has learnt lately."""
        return KnownLimits(self._known.believed(self._ask))

    def again(self, topic: str, rules: KnownLimits) -> KnownLimits:
        """The rules with what the brokers say now of one topic, if they were believed of it.

        What its answer to a record has shown stays believed: brokers do not say when that ends.
        """
        asked = self._ask([topic]) if topic in rules.topics and not rules.topics[topic].tried else {}
        self._known.learn(asked)
        return rules.joined(KnownLimits(asked))

    def found(self, refused: TopicsRefusedError, rules: KnownLimits) -> KnownLimits:
        """The rules to continue with, after a pass by ``rules`` has failed.

        Raises:
            KafkaException: nothing more was found out, and no topic is known to have refused; the transaction's error.
        """
        self._standings = refused.known
        sent = self._sent(rules)
        later = all(error.code() in NOT_NOW for error in (refused.cause, *refused.topics.values()))
        asked = {} if later else self._ask(sent)
        narrow = int(self._client()["batch.size"])
        more = KnownLimits(
            {
                topic: rule
                for topic, rule in asked.items()
                if topic in refused.topics or rule.fits < narrow or sent[topic].refused_by(rule)
            }
        )
        for topic, error in refused.topics.items():
            one = sent.get(topic, _Sent())
            if not one.refused_by(more.topics.get(topic)):
                more = more.joined(self._try(topic, error, one, rules.joined(more)))
        together = rules.joined(more)
        gone = any(error.code() in NOT_NOW for error in (refused.cause, *refused.topics.values()))
        if together == rules and not gone:  # of those the next pass knows
            # a topic took singly what it had refused in a batch: its records wait, so that all others do not
            more = more.joined(KnownLimits({topic: _whole(error) for topic, error in refused.topics.items()}))
            together = rules.joined(more)
        if together == rules and not gone:
            raise KafkaException(refused.cause) from refused
        self._known.learn(more.topics)
        return together

    def _ask(self, topics: Iterable[str]) -> dict[str, TopicLimits]:
        return describe_limits(self._plain, topics, compressed=self._compressed)

    def _records(self, rules: KnownLimits, topic: str | None = None) -> Iterator[Record]:
        if self._standings is None:
            return
        builder = self._build(self._standings, rules, None)
        for piece in self._pieces.pulled():
            for record in builder.build(piece):
                if topic in {None, record.topic}:
                    yield record

    def _sent(self, rules: KnownLimits) -> dict[str, _Sent]:
        sent: dict[str, _Sent] = {}
        for record in self._records(rules):
            one = sent.setdefault(record.topic, _Sent())
            one.largest = max(one.largest, batch_bytes(record))
            one.without_key |= record.key is None
        return sent

    def _try(self, topic: str, error: KafkaError, sent: _Sent, rules: KnownLimits) -> KnownLimits:
        """What can be found out about one topic without asking."""
        if error.code() in REFUSES_ALL:
            return KnownLimits({topic: _whole(error)})
        if error.code() in NOT_NOW:
            return KnownLimits()  # the next pass asks
        if error.code() in TOO_LARGE and not self._compressed:
            return self._measured(topic, sent.largest, rules)
        if error.code() not in TOO_LARGE and sent.without_key:
            without_key = next(record for record in self._records(rules, topic) if record.key is None)
            for _, why in self._refused([without_key]):
                rule = _whole(why) if why.code() in REFUSES_ALL else TopicLimits(needs_key=True)
                return KnownLimits({topic: rule})
        return self._tried_one_by_one(topic, error, rules)

    def _measured(self, topic: str, largest: int, rules: KnownLimits) -> KnownLimits:
        """How large a record a topic takes that does not say so: one of the sizes that were sent, by halving."""
        sizes = sorted({batch_bytes(record) for record in self._records(rules, topic)})
        fitting, refused = -1, len(sizes)  # indices: all up to the one fit, all from the other on do not
        index = len(sizes) - 1  # most likely only batches of several were too large
        while refused - fitting > 1:
            size = sizes[index]
            if self._refused([next(r for r in self._records(rules, topic) if batch_bytes(r) == size)]):
                refused = index
            else:
                fitting = index
            index = (fitting + refused) // 2
        fits = sizes[fitting] if fitting >= 0 else 1
        return KnownLimits(
            {topic: TopicLimits(fits=fits, too_large_from=sizes[refused] if refused < len(sizes) else largest + 1)}
        )

    def _tried_one_by_one(self, topic: str, error: KafkaError, rules: KnownLimits) -> KnownLimits:
        """Which records a topic does not take, when neither their size nor their key says so."""
        rule = rules.topics.get(topic, TopicLimits(fits=1))  # not known what fits: one record a batch
        suspects: list[Record] = []
        refused: dict[Any, str] = {}
        untried: set[int] = set()
        whole: list[TopicLimits] = []
        until = monotonic() + _TRYING_SECONDS

        def settle() -> None:
            tried, left = probe_individually(self._client(), suspects, self._dated_ms, until)
            for index, why in tried.items():
                refused[record_key(suspects[index])] = f"Kafka says: {why.str()}"
                if why.code() in REFUSES_ALL:
                    whole.append(_whole(why))
            untried.update(hash(record_key(suspects[index])) for index in left)
            suspects.clear()

        for record in self._records(rules, topic):
            if error.code() in TOO_LARGE and batch_bytes(record) <= rule.fits:
                continue
            suspects.append(record)
            if len(suspects) == _TRIED_AT_ONCE:
                settle()
        settle()
        if whole:  # of a batch's other records Kafka says only that they are in it
            return KnownLimits({topic: whole[0]})
        found = refused or untried or topic not in rules.topics
        return KnownLimits({topic: rule}, refused, frozenset(untried)) if found else KnownLimits()

    def _refused(self, records: list[Record]) -> list[tuple[Record, KafkaError]]:
        tried, _ = probe_individually(self._client(), records, self._dated_ms)
        return [(records[index], error) for index, error in tried.items()]


def _whole(error: KafkaError) -> TopicLimits:
    """Of a topic that would say so of any record of this sink."""
    return TopicLimits(refused=f"Kafka says: {error.str()}", tried=True)
