"""What is known of topics that refuse records: sizes, reasons, and for how long it is believed."""

from collections.abc import Iterable, Mapping

import pytest

from streaming.batch.record import Record, batch_bytes, record_key
from streaming.kafka_sink.topic_limits import KnownLimits, LearnedLimits, Refusal, TopicLimits


def record(key: bytes | None = None, value: bytes | None = b"v", *headers: tuple[str, bytes | None]) -> Record:
    return Record("t", -1, key, value, list(headers))


@pytest.mark.parametrize(
    ("one", "size"),
    [
        *((record(None, None), 68), (record(b"", b""), 68), (record(None, b"x" * 57), 125)),
        *((record(b"k", b"v"), 70), (record(None, b"x" * 64), 134)),
        (record(None, None, ("h", None), ("ü", b"1")), 76),
    ],
)
def test_a_batch_of_one_record_has_so_many_bytes(one: Record, size: int) -> None:
    assert batch_bytes(one) == size


def test_a_record_is_refused_from_that_size_on() -> None:
    one = record(b"k", b"v")
    assert TopicLimits(too_large_from=71).refusal(one) is None
    why = "it has 70 bytes, and that topic takes fewer than 70 (max.message.bytes)"
    assert TopicLimits(too_large_from=70).refusal(one) == Refusal(why, passing=False)


def test_what_is_a_topics_fault_may_pass_and_what_is_a_records_does_not() -> None:
    closed = TopicLimits(refused="not authorized", needs_key=True)
    assert closed.refusal(record(b"k")) == Refusal("not authorized", passing=True)
    refusal = closed.refusal(record(None))
    assert refusal is not None
    assert not refusal.passing


def test_a_compacted_topic_needs_a_key_that_may_be_empty() -> None:
    rule = TopicLimits(needs_key=True)
    assert rule.refusal(record(b"")) is None
    assert "no key" in str(rule.refusal(record(None)))


def test_single_records_are_known_by_their_content() -> None:
    bad = record(b"k", b"bad", ("h", b"1"))
    rules = KnownLimits({"t": TopicLimits()}, {record_key(bad): "why"})
    assert rules.refusal(bad) == Refusal("why", passing=False)
    assert rules.refusal(bad._replace(headers=[("h", b"2")])) is None
    assert rules.refusal(bad._replace(topic="another")) is None


def test_rules_are_asked_for_anew_when_their_time_is_over() -> None:
    now = 0.0
    asked: list[list[str]] = []

    def ask(topics: Iterable[str]) -> Mapping[str, TopicLimits]:
        asked.append(list(topics))
        return {"bad": TopicLimits(fits=2)}

    known = LearnedLimits(60, lambda: now)
    known.learn({"bad": TopicLimits(fits=1), "gone": TopicLimits(refused="why")})
    now = 59.9
    assert known.believed(ask) == {"bad": TopicLimits(fits=1), "gone": TopicLimits(refused="why")}
    assert not asked
    now = 60.0
    assert known.believed(ask) == known.believed(ask) == {"bad": TopicLimits(fits=2)}
    assert asked == [["bad", "gone"]]


def test_what_there_was_no_time_to_try_is_held() -> None:
    one, other = record(b"k"), record(b"other")
    rules = KnownLimits({"t": TopicLimits(fits=1)}, {}, frozenset({hash(record_key(one))}))
    found = rules.joined(KnownLimits({"u": TopicLimits()})).refusal(one)
    assert found is not None
    assert (found.passing, rules.refusal(other)) == (True, None)
