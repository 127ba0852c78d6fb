"""Topics that refuse every record, as consumers may configure those of their retries: they do not stop the job."""

from collections.abc import Iterable
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from checkback.wire.protocol import Topics
from streaming.batch.headers import packed_headers
from streaming.batch.record import Record
from streaming.brokers.directory import Known
from streaming.kafka_sink import refusals
from streaming.kafka_sink.holding import Holding
from streaming.kafka_sink.records import Ask, RecordBuilder
from streaming.kafka_sink.spill import ReplayableBatches
from streaming.kafka_sink.topic_limits import KnownLimits, LearnedLimits, TopicLimits
from streaming.kafka_sink.transaction import TopicsRefusedError
from tests.streaming.kafka_sink.test_lane_records import Anything
from tests.streaming.outcomes import outcome, rows

TOPICS = Topics()
RETRY = TOPICS.retry("points")
HELD = packed_headers([("cb-id", b"tx-1"), ("cb-held", b"1 1000 0:3"), ("cb-deliver-at", b"2000"), ("trace", b"1")])
FITS = TopicLimits(fits=1_000_000, too_large_from=1_000_001)


class Sink:
    """Passes over batches, before a Kafka where one topic refuses every record with an error."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
        self.error = KafkaError(code)
        self.now = 0.0
        self.passes = 0
        self.configured = FITS
        self.learned = LearnedLimits(60.0, lambda: self.now)
        monkeypatch.setattr(refusals, "describe_limits", self._describe)
        monkeypatch.setattr(refusals, "probe_individually", lambda *_: ({}, []))

    def write(self, *outcomes: dict[str, Any]) -> list[Record]:
        """As ``partition_writer`` does: what is written in the end."""
        with ReplayableBatches(rows(*outcomes), 1 << 20) as pieces:
            client = {"batch.size": 1_000_000}
            found = refusals.Refusals(lambda: client, {}, self._build, self.learned, pieces, 0)
            limits = found.known()
            for _ in range(8):
                self.passes += 1
                known = Anything()
                builder = self._build(known, limits, found.again)
                written = [record for piece in pieces for record in builder.build(piece)]
                if all(record.topic != RETRY for record in written):
                    return written
                limits = found.found(TopicsRefusedError({RETRY: self.error}, known, self.error), limits)
        raise AssertionError("too many passes")

    def _build(self, known: Known, rules: KnownLimits, ask: Ask | None) -> RecordBuilder:
        return RecordBuilder(TOPICS, known, Holding(TOPICS.half, 5_000), rules, ask)

    def _describe(self, _: Any, topics: Iterable[str], **__: Any) -> dict[str, TopicLimits]:
        return dict.fromkeys(topics, self.configured)


@pytest.mark.parametrize("code", [KafkaError.INVALID_TIMESTAMP, KafkaError.POLICY_VIOLATION])
@pytest.mark.parametrize("headers", [None, HELD], ids=["fresh", "held before"])
def test_what_a_topic_refuses_as_a_whole_is_held_at_each_try(
    monkeypatch: pytest.MonkeyPatch, headers: str | None, code: int
) -> None:
    sink = Sink(monkeypatch, code)
    for passes in (2, 3, 4):
        (half, other) = sink.write(outcome(RETRY, headers=headers), outcome("orders", transaction_id="other"))
        assert (half.topic, other.topic, sink.passes) == (TOPICS.half, "orders", passes)
        assert dict(half.headers)["cb-action"] == b"commit"
        assert sink.error.str().encode() in (dict(half.headers)["cb-reason"] or b"")
    sink.now = 60.0
    sink.write(outcome(RETRY, headers=headers))
    assert sink.passes == 6, "it may take them since"


def test_rights_that_were_given_count_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    sink = Sink(monkeypatch, KafkaError.TOPIC_AUTHORIZATION_FAILED)
    sink.configured = TopicLimits(refused="no rights")
    (half,) = sink.write(outcome(RETRY, headers=HELD))
    assert half.topic == TOPICS.half
    sink.configured = FITS
    builder = sink._build(Anything(), KnownLimits({RETRY: TopicLimits(refused="no rights")}), None)
    found = refusals.Refusals(dict, {}, sink._build, sink.learned, ReplayableBatches(rows(), 1), 0)
    assert not found.again(RETRY, builder._rules).topics[RETRY].refused


@pytest.mark.parametrize("code", [KafkaError.INVALID_RECORD, KafkaError.MSG_SIZE_TOO_LARGE])
def test_a_topic_that_refuses_together_what_it_takes_singly_is_held_as_well(
    monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    sink = Sink(monkeypatch, code)
    (half,) = sink.write(outcome(RETRY, key=b"k"))
    assert half.topic == TOPICS.half


def test_what_is_nobodys_fault_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    sink = Sink(monkeypatch, KafkaError.INVALID_RECORD)
    with ReplayableBatches(rows(outcome("orders")), 1 << 20) as pieces:
        found = refusals.Refusals(lambda: {"batch.size": 1}, {}, sink._build, sink.learned, pieces, 0)
        refused = TopicsRefusedError({}, Anything(), sink.error)
        with pytest.raises(KafkaException):
            found.found(refused, KnownLimits({"orders": FITS}))
