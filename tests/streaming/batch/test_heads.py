"""What is left of a record that its topic does not take whole: sizes are those that Kafka counts."""

import pytest

from streaming.batch.headers import Headers
from streaming.batch.heads import HEAD_BYTES, head_of
from streaming.batch.record import Record, batch_bytes, record_key
from streaming.kafka_sink.topic_limits import KnownLimits, TopicLimits

OURS: Headers = [("cb-reason", b"because"), ("cb-from", b"cb.half:0:7")]


def record(value: bytes | None = b"x" * 5_000_000, key: bytes | None = b"k", headers: Headers = OURS) -> Record:
    return Record("t", -1, key, value, list(headers))


@pytest.mark.parametrize("most", [1_500, 50_000, 1_048_588])
@pytest.mark.parametrize(
    "one",
    [
        record(),
        record(value=None),
        record(key=b"k" * 3_000_000),
        record(b"", None, [*OURS, ("big", b"h" * 3_000_000), ("small", None)]),
        record(headers=[*OURS, *(("ü" * 400, b"h" * 400) for _ in range(10_000))]),
    ],
)
def test_a_head_fits(one: Record, most: int) -> None:
    head = head_of(one, most)
    assert batch_bytes(head) <= most
    assert head.headers[-1][0] == "cb-cut"
    assert (head.value is None) == (one.value is None)
    assert (one.value or b"").startswith(head.value or b"")


def test_a_head_has_the_first_headers_and_says_how_large_the_whole_was() -> None:
    head = head_of(record(headers=[*OURS, ("a", None)]), 1_048_588)
    assert head.headers == [*OURS, ("a", None), ("cb-cut", b"1 5000000 35")]
    assert (head.key, head.value) == (b"k", b"x" * HEAD_BYTES)


def test_the_note_of_the_first_cut_stays() -> None:
    head = head_of(head_of(record(), 100_000), 1_000)
    assert [pair for pair in head.headers if pair[0] == "cb-cut"] == [("cb-cut", b"1 5000000 34")]


def test_without_payload_nothing_is_left_but_our_own() -> None:
    headers: Headers = [("cb-id", b"1"), ("cb-key", b"k"), ("cb-messages", b"2"), ("a", b"1")]
    head = head_of(record(headers=headers), 1_000, payload=False)
    assert (head.key, head.value, [name for name, _ in head.headers]) == (b"k", None, ["cb-id", "cb-cut"])


def test_a_record_is_cut_to_what_its_topic_is_known_to_take() -> None:
    size = batch_bytes(record())
    assert KnownLimits().room(record()) is None
    assert KnownLimits({"t": TopicLimits(refused="closed", needs_key=True)}).room(record()) is None
    assert KnownLimits({"t": TopicLimits(fits=size, too_large_from=size + 1)}).room(record()) is None
    assert KnownLimits({"t": TopicLimits(fits=1_000, too_large_from=1_001)}).room(record()) == 1_000
    tried = KnownLimits({"t": TopicLimits(fits=1_000)}, {record_key(record()): "Kafka says: too large"})
    assert tried.room(record()) == 1_000
    assert tried.room(record(b"1" * 2_000)) is None


def test_where_it_is_not_known_what_fits_ever_less_is_tried() -> None:
    head, tries = record(), 0
    while batch_bytes(head) > 10_000:  # what the topic takes, and does not say
        room = KnownLimits({"t": TopicLimits(fits=1, too_large_from=batch_bytes(head))}).room(record())
        assert room is not None
        head, tries = head_of(record(), room), tries + 1
    assert tries <= 5
