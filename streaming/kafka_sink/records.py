"""Outcome rows to Kafka records: the last step before the sink."""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from checkback.exceptions import OwnTopicError
from checkback.wire import protocol
from checkback.wire.checks import CheckRequest
from checkback.wire.limits import MOST_RECORD_BYTES
from checkback.wire.message_json import unpack
from checkback.wire.protocol import HalfPosition, HeldNote, Topics
from state import (
    BUNDLE,
    NOT_WRITTEN,
    OutcomeKind,
    RejectedOp,
    answer_told,
    lane_checked,
    parked_for,
    rejected_op,
    rejected_record_offset,
    status_pause_ms,
)
from streaming.access.told import signed_dead_letter
from streaming.batch.batch import HeldChanges, HeldUntil
from streaming.batch.bundles import bundled_messages
from streaming.batch.headers import MARK_OF_OURS, Headers, application_headers, unpack_headers
from streaming.batch.heads import head_of
from streaming.batch.record import RANDOM_OR_KEYED, Record
from streaming.brokers.directory import Known
from streaming.kafka_sink.content import Contents
from streaming.kafka_sink.holding import Holding, half_of, held_of, held_until_s, pause_ms, rejected_half, was_held
from streaming.kafka_sink.reasons import AccessRefusals, ReasonCounts
from streaming.kafka_sink.topic_limits import KnownLimits, Refusal, chosen_partition
from streaming.stateful.admission import over_limit

_NO_RULES = KnownLimits()
Ask = Callable[[str, KnownLimits], KnownLimits]
"""Gives the rules with what the brokers say now of one topic."""
Pace = Callable[[str], float]
"""How many milliseconds a message of this topic takes, if there is no time for more of them in this batch; else 0."""
SLOW = "that topic takes a few small messages at a time (max.message.bytes), and there are many"
_IDLE = 2
"""A slow topic's messages come back so many times slower than it takes them: batches have others to write."""
_MOST_HELD = 1_000
"""Topics and times of the next try, of which a task tells."""


class RecordBuilder:
    """Builds the records of an outcome batch. What a topic does not take is held, or left to operators.

    ``known``: how topics stand; ``rules``: what they are known to refuse, which ``ask`` finds out again; ``pace``:
    which of them are slow; ``contents`` reads content again that was set aside.
    """

    def __init__(
        self,
        topics: Topics,
        known: Known,
        holding: Holding,
        rules: KnownLimits = _NO_RULES,
        ask: Ask | None = None,
        pace: Pace | None = None,
        contents: Contents | None = None,
    ) -> None:
        self._ask = ask
        self._contents = contents
        self._pace = pace
        self._slow: Counter[str] = Counter()
        self._asked: set[str] = set()
        self._topics = topics
        self._ours = frozenset(topics.all())
        self._known = known
        self._holding = holding
        self._rules = rules
        self._sorted: set[str] = set()
        self._not_taken: dict[HalfPosition, str] = {}
        """What became of messages whose topics did not take them, where they had been parked before."""
        self._plain: dict[str, int] = {}
        """Number of partitions of each topic that nothing else has to be looked at for: most of all."""
        self.counts: Counter[str] = Counter()
        """What became of messages here, and not in the state machine."""
        self.reasons = ReasonCounts()
        self.held = HeldChanges()
        self.ask_limit_ms = 0
        """Checks say it: see :class:`~checkback.wire.checks.CheckRequest`."""
        self.refused = AccessRefusals()

    def build(self, batch: pa.RecordBatch) -> Iterator[Record]:
        """Records of one batch of outcomes (``OUTCOME_FIELDS`` and ``half_partition``), counts left out.

        Raises:
            OwnTopicError: one of our own topics is missing, or known to refuse a record, and not for its size.
            KafkaException: no broker says how topics stand, or what a message's content was.
        """
        if self._contents is None:
            yield from self._build(batch)
            return
        for piece in self._contents.filled(batch):
            yield from self._build(piece)
        self.counts.update(self._contents.counts)
        self._contents.counts.clear()

    def _build(self, batch: pa.RecordBatch) -> Iterator[Record]:
        kinds = batch.column("kind").to_numpy()
        # Outcomes of a kind lie together: a segment's evaluation gives them so.
        edges = np.flatnonzero(np.diff(kinds)) + 1
        for start, end in pairwise([0, *edges.tolist(), len(kinds)]):
            kind, piece = int(kinds[start]), batch.slice(start, end - start)
            if kind == OutcomeKind.DELIVER:
                yield from self._delivered(piece)
            elif kind == OutcomeKind.DELIVER_BUNDLE:
                for row in piece.to_pylist():
                    yield from self._bundle(row)
            elif kind not in NOT_WRITTEN:
                yield from (self._other(OutcomeKind(kind), row) for row in piece.to_pylist())

    def _delivered(self, batch: pa.RecordBatch) -> Iterator[Record]:
        names = ("topic", "partition", "key", "value", "headers", "transaction_id")
        self._learn(pc.unique(batch.column("topic")).to_pylist())
        columns = (batch.column(name).to_pylist() for name in names)
        make = tuple.__new__  # a named tuple's own takes 0.2 µs longer
        for row, (topic, partition, key, value, headers, transaction_id) in enumerate(zip(*columns, strict=True)):
            named = (protocol.ID, transaction_id.encode())
            ours = headers is not None and MARK_OF_OURS in headers
            written = application_headers(headers) if ours else unpack_headers(headers)
            record = make(Record, (topic, partition, key, value, [named, *written]))
            if ours and was_held(headers):
                self.counts["committed"] -= 1  # it was counted when it was tried first
                yield self._tried_again(record, batch.slice(row, 1).to_pylist()[0])
                continue
            # no call for those that nothing is known of: most of all
            found = record if partition < self._plain.get(topic, RANDOM_OR_KEYED) else self._tried(record)
            if isinstance(found, Refusal):
                one = batch.slice(row, 1).to_pylist()[0]
                found = self._undeliverable(one, record.headers[1:], None, found)
            yield found

    def _tried_again(self, record: Record, row: dict[str, Any]) -> Record:
        found = self._tried(record, again=True)
        written = unpack_headers(row["headers"])
        before = held_of(written)
        if before is not None and before.tries:
            self.held[HeldUntil(record.topic, held_until_s(written))] -= 1
        if isinstance(found, Refusal):
            return self._undeliverable(row, record.headers[1:], before, found)
        self.counts["redelivered"] += 1
        return found

    def _tried(self, record: Record, *, again: bool = False) -> Record | Refusal:
        """As :meth:`_placed`; before a message is left to operators, or refused ``again``, its topic is asked once."""
        found = self._placed(record)
        refused = isinstance(found, Refusal) and (again or not found.passing)
        if refused and self._ask and record.topic not in self._asked | self._plain.keys():
            # what was learnt a minute ago may be what an operator has put right since
            self._asked.add(record.topic)
            self._rules = self._ask(record.topic, self._rules)
            found = self._placed(record)
        return found

    def _learn(self, topics: Iterable[str]) -> None:
        new = [topic for topic in topics if topic not in self._sorted]
        if new:
            self._known.learn(new)
            for topic in new:
                self._sort(topic)

    def _sort(self, topic: str) -> None:
        standing = self._known.standings[topic]
        self._sorted.add(topic)
        self._plain.pop(topic, None)
        if standing.partitions and not standing.away and topic not in self._rules.topics:
            self._plain[topic] = standing.partitions

    def _placed(self, record: Record) -> Record | Refusal:
        """The record, on a partition of our choice if need be; or why it cannot be delivered."""
        topic = record.topic
        standing = self._known.standings[topic]
        if standing.partitions and record.partition >= standing.partitions:  # the topic may have been grown
            standing = self._known.again(topic)
            self._sort(topic)
        if not standing.partitions:
            return Refusal(standing.refusal, passing=True)
        if record.partition >= standing.partitions:
            return Refusal(f"that topic has {standing.partitions} partitions", passing=True)
        refusal = self._rules.refusal(record) or self._too_slow(topic)
        if refusal is not None or not standing.away:
            return refusal or record
        partition = chosen_partition(record, standing.partitions, standing.away)
        why = next(iter(standing.away.values())) if partition < 0 else standing.away.get(partition)
        return Refusal(why, passing=True) if why else record._replace(partition=partition)

    def _too_slow(self, topic: str) -> Refusal | None:
        """Held for as long as those before it take: so it is not tried, and written again, all the time."""
        if self._pace is None or topic not in self._rules.topics or topic in self._ours:
            return None
        pace_ms = self._pace(topic)
        if not pace_ms:
            return None
        self._slow[topic] += 1
        return Refusal(SLOW, passing=True, pause_ms=pause_ms(0) + int(self._slow[topic] * pace_ms * _IDLE))

    def _own(self, record: Record) -> Record:
        """A record for a topic of ours, which has to take it: whole where it can, else with its head."""
        if record.topic in self._plain:
            return record
        self._learn([record.topic])
        standing = self._known.standings[record.topic]
        if not standing.partitions:  # a broker that has just started knows nothing yet
            standing = self._known.patiently(record.topic)
            self._sort(record.topic)
        room = self._rules.room(record)
        if room is not None:  # nobody's input stops the job
            record = head_of(record, room, payload=record.topic != self._topics.check)
            self.counts["cut"] += 1
        refusal = self._rules.refusal(record)
        why = standing.refusal or (refusal.reason if refusal else "")
        if why:
            raise OwnTopicError(
                f"{record.topic} refuses a record that the job must write there: {why}. Give it the "
                f"configuration of 'checkback topics create' (max.message.bytes={MOST_RECORD_BYTES}; compacted: only "
                f"{self._topics.status}), let the job write to it, and start again: nothing is lost."
            )
        return record

    def _bundle(self, row: dict[str, Any]) -> Iterator[Record]:
        """All messages of one transaction, in the order they were added; each has an id of its own."""
        messages = list(bundled_messages(row))
        self._learn({message.topic for message in messages})
        for message in messages:
            named, headers = (protocol.ID, message.transaction_id.encode()), message.headers
            found = self._tried(Record(*message[1:5], [named, *headers]))
            if isinstance(found, Refusal):
                one = {**row, **message._asdict(), "headers": row["headers"]}
                found = self._undeliverable(one, headers, None, found)
            yield found

    def _other(self, kind: OutcomeKind, row: dict[str, Any]) -> Record:
        letter = self._dead_letter(row) if kind == OutcomeKind.REJECT_RECORD else None
        return letter or self._own(self._of_ours(kind, row))

    def _of_ours(self, kind: OutcomeKind, row: dict[str, Any]) -> Record:
        if kind == OutcomeKind.CHECK:
            return self._check(row)
        if kind == OutcomeKind.PARK:
            return self._parked(row)
        if kind == OutcomeKind.PARK_END:
            return self._to_parked(row, [(protocol.ENDED, self._not_taken.get(half_of(row), row["reason"]).encode())])
        if kind == OutcomeKind.REJECT_OP:
            op, written = rejected_op(row), unpack_headers(row["headers"])
            return self._rejected(row, self._topics.op, op.offset, written or _written(row, op))
        if kind == OutcomeKind.REJECT_RECORD:
            return self._rejected(row, row["topic"], rejected_record_offset(row), unpack_headers(row["headers"]))
        return self._status(row, ended=kind == OutcomeKind.STATUS_END)

    def _check(self, row: dict[str, Any]) -> Record:
        left_out = max(row["left_out"], 0)
        several = unpack(row["value"]) if row["partition"] == BUNDLE and not left_out else ()
        request = CheckRequest(
            transaction_id=row["transaction_id"],
            group=row["group"],
            topic=row["topic"],
            key=row["key"],
            value=None if several else row["value"],
            headers=[(name, value or b"") for name, value in application_headers(row["headers"])],
            half=half_of(row),
            attempt=row["attempt"],
            check_max=row["check_max"],
            ingested_ms=row["ingested_ms"],
            messages=several,
            left_out=left_out,
            lane=lane_checked(row),
            ask_limit_ms=self.ask_limit_ms,
        )
        key, _, headers = request.to_record()
        return Record(self._topics.check, RANDOM_OR_KEYED, key, row["value"], list(headers))

    def _undeliverable(self, row: dict[str, Any], headers: Headers, held: HeldNote | None, refusal: Refusal) -> Record:
        asked = f" partition {row['partition']}" if row["partition"] >= 0 else ""
        row = {**row, "reason": f"{protocol.UNDELIVERABLE} {row['topic']}{asked}: {refusal.reason}"}
        if not held and (over := over_limit(row, self._topics)):
            self.counts.update(committed=-1, rejected=1)
            return self._other(OutcomeKind.REJECT_RECORD, rejected_half(row, headers, self._topics.half, over))
        half, again = self._holding.half(row, headers, held, refusal)
        self._not_taken[half_of(row)] = protocol.COMMITTED_HELD if again else protocol.COMMITTED_REFUSED
        self._learn([half.topic])
        if not isinstance(self._placed(half), Refusal):
            self.counts["held" if again else "undeliverable"] += 1
            self.reasons.add("held" if again else "parked", row["reason"], row["transaction_id"])
            if again:
                self._note_held(HeldUntil(row["topic"], held_until_s(half.headers), refusal.reason))
            return half
        # It has more headers than the half message had, or is no longer compressed: nowhere to keep it.
        self.counts.update(undeliverable=1, parked=1)
        self.reasons.add("parked", row["reason"], row["transaction_id"])
        return self._own(self._to_parked(row, [(protocol.REASON, row["reason"].encode()), *headers]))

    def _note_held(self, held: HeldUntil) -> None:
        if held in self.held or len(self.held) < _MOST_HELD:
            self.held[held] += 1

    def _parked(self, row: dict[str, Any]) -> Record:
        written = unpack_headers(row["headers"])
        headers = [pair for pair in written if not pair[0].startswith(protocol.RESERVED_PREFIX)]
        if row["partition"] == BUNDLE:
            headers = [(protocol.MESSAGES, str(len(unpack(row["value"]))).encode()), *headers]
        why, answer = parked_for(row)
        if why:
            self.reasons.add("parked", why, row["transaction_id"])
            of_answer = [(protocol.ANSWER, answer.encode())] if answer else []
            return self._to_parked(row, [(protocol.REASON, why.encode()), *of_answer, *headers])
        origin = f"{self._topics.half}:{held.origin}" if (held := held_of(written)) else ""
        reason = dict(written).get(protocol.REASON) or protocol.UNDELIVERABLE.encode()
        return self._to_parked(row, [(protocol.REASON, reason), (protocol.FROM, origin.encode()), *headers])

    def _to_parked(self, row: dict[str, Any], headers: Headers) -> Record:
        partition = row["partition"]
        ours: Headers = [
            (protocol.ID, row["transaction_id"].encode()),
            (protocol.GROUP, row["group"].encode()),
            (protocol.TOPIC, row["topic"].encode()),
            *([(protocol.PARTITION, str(partition).encode())] if partition >= 0 else []),
            (protocol.HALF, str(half_of(row)).encode()),
        ]
        self._learn([self._topics.parked])
        # what ends one comes after it, also where somebody has given the topic more than one partition
        place = row["half_partition"] % max(1, self._known.standings[self._topics.parked].partitions)
        return Record(self._topics.parked, place, row["key"], row["value"], [*ours, *headers])

    def _dead_letter(self, row: dict[str, Any]) -> Record | None:
        """Of what a consumer group has sent back, and is not taken in: else nobody would look for it.

        None for all else, and where the group's dead letters do not take it; the row's reason says so then.
        """
        if (found := signed_dead_letter(row, self._topics)) is None:
            return None
        topic, headers = found
        self._learn([topic])
        letter = self._tried(Record(topic, RANDOM_OR_KEYED, row["key"], row["value"], headers))
        if isinstance(letter, Refusal):
            row["reason"] += f"; and {topic} does not take it: {letter.reason}"
            return None
        self.reasons.add("rejected", row["reason"], "")
        self.refused.add(row["reason"], unpack_headers(row["headers"]))
        return letter

    def _rejected(self, row: dict[str, Any], topic: str, offset: int, written: Headers) -> Record:
        self.reasons.add("rejected", row["reason"], row["transaction_id"])
        self.refused.add(row["reason"], written)
        came_from = f"{topic}:{row['half_partition']}:{offset}".encode()
        headers: Headers = [(protocol.REASON, row["reason"].encode()), (protocol.FROM, came_from), *written]
        return Record(self._topics.rejected, RANDOM_OR_KEYED, row["key"], row["value"], headers)

    def _status(self, row: dict[str, Any], *, ended: bool) -> Record:
        half = str(half_of(row))
        if ended:
            return Record(self._topics.status, RANDOM_OR_KEYED, half.encode(), None, [])
        now_ms, told = self._holding.now_ms, answer_told(row)
        body = {
            "transaction_id": row["transaction_id"],
            "group": row["group"],
            "topic": row["topic"],
            "half": half,
            "attempt": row["attempt"],
            "check_max": row["check_max"],
            "ingested_ms": row["ingested_ms"],
            "asked_ms": now_ms,
            "next_check_ms": now_ms + status_pause_ms(row),
            "last_answer": row["reason"],
        }
        if told is not None:
            asked_ms = now_ms - told.asked_ago_ms
            body |= {"asked_ms": asked_ms, "answered_ms": now_ms, "misses": told.misses, "remark": told.remark}
        return Record(self._topics.status, RANDOM_OR_KEYED, half.encode(), json.dumps(body).encode(), [])


def _written(row: dict[str, Any], op: RejectedOp) -> Headers:
    """The headers of an op that had no others than these; of a claim those that are still known."""
    known = [
        (protocol.ID, row["transaction_id"]),
        (protocol.GROUP, row["group"]),
        (protocol.HALF, str(half_of(row))),
        (protocol.ACTION, op.action),
        (protocol.SOURCE, op.source),
    ]
    headers: Headers = [(name, text.encode()) for name, text in known if text]
    return [*headers, op.fact.header] if op.fact else headers
