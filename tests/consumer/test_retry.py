"""What travels with a message that is sent back, and what it is like when it comes again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkback.consumer import ReceivedMessage
from checkback.consumer.retry import OwnTopics, as_it_was, dead_letter, for_everybody, tried_again
from checkback.exceptions import ConfigurationError, ProtocolError
from checkback.wire.protocol import Topics

OWN = OwnTopics.of(Topics(), "points")
NAMES = st.text(st.characters(exclude_characters="\0\ufffd", exclude_categories=["Cs"]), min_size=1, max_size=9)
NAMES |= st.sampled_from(["cb-", "cb-trace", "cb-topic", "checkback-", "checkback-tries", "checkback-kept-cb-id"])
MESSAGES = st.builds(
    ReceivedMessage,
    topic=st.sampled_from(["orders", "a.b-c_d"]),
    partition=st.integers(0, 99),
    offset=st.integers(0, 10**15),
    key=st.none() | st.binary(max_size=9),
    value=st.none() | st.binary(max_size=9),
    headers=st.lists(st.tuples(NAMES, st.none() | st.binary(max_size=9)), max_size=5).flatmap(
        lambda headers: st.sampled_from([headers, [("cb-id", b"tx-17"), *headers]])
    ),
    timestamp_ms=st.integers(0, 2**63 - 1),  # brokers take any
    tries=st.integers(0, 20),
)


def ours(place: bytes, tries: bytes, time: bytes) -> list[tuple[str, bytes | None]]:
    return [("checkback-origin", place), ("checkback-tries", tries), ("checkback-origin-time", time)]


def delivered(headers: list[tuple[str, bytes | None]]) -> list[tuple[str, bytes | None]]:
    """What the job makes of a half message's headers: ours are taken off, ``cb-id`` is put before the others."""
    return [("cb-id", dict(headers)["cb-id"]), *(pair for pair in headers if not pair[0].startswith("cb-"))]


@given(MESSAGES)
def test_a_message_comes_again_as_it_was(message: ReceivedMessage) -> None:
    half = tried_again(message, OWN, 1_767_225_600_000)
    assert half.topic == "cb.later"
    again = ReceivedMessage("cb.retry.points", 3, 812, half.key, half.value, delivered(list(half.headers)), 5)
    assert as_it_was(again) == message._replace(tries=message.tries + 1)
    assert as_it_was(again).id == message.id


@given(MESSAGES)
def test_a_dead_letter_says_what_it_was_and_why(message: ReceivedMessage) -> None:
    dead = dead_letter(message, OWN, "tried 17 times in vain")
    assert dead.topic == "cb.dlq.points"
    assert dict(dead.headers)["checkback-reason"] == b"tried 17 times in vain"
    there = ReceivedMessage("cb.dlq.points", 0, 1, dead.key, dead.value, dead.headers, 5)
    assert as_it_was(there) == message._replace(tries=message.tries + 1)


def test_a_half_message_with_its_own_decision_byte_for_byte() -> None:
    message = ReceivedMessage(
        "shop.orders", 3, 812, b"k", b"v", [("cb-id", b"tx-17"), ("trace", b"1"), ("n", None)], 1_767_225_590_000
    )
    half = tried_again(message, OWN, 1_767_225_570_000, 30_000)
    assert half.headers[1:] == [
        ("cb-group", b"points"),
        ("cb-topic", b"cb.retry.points"),
        ("cb-action", b"commit"),
        ("cb-deliver-at", b"1767225600000"),
        ("checkback-pause", b"30000"),
        ("trace", b"1"),
        ("n", b""),
        ("checkback-origin", b"shop.orders:3:812"),
        ("checkback-origin-time", b"1767225590000"),
        ("checkback-tries", b"1"),
        ("checkback-first-id", b"tx-17"),
        ("checkback-without-value", b"1"),
    ]
    assert half.headers[0][0] == "cb-id"
    assert len(half.headers[0][1] or b"") == 32
    assert half.headers[0] != tried_again(message, OWN, 1_767_225_600_000).headers[0]


def test_a_message_of_the_retry_topic_that_is_not_ours_is_as_it_lies_there() -> None:
    foreign: list[list[tuple[str, bytes | None]]] = [
        [],
        [("checkback-origin", b"orders:1")],
        [("checkback-origin", b"orders:1:x"), ("checkback-tries", b"1"), ("checkback-origin-time", b"1")],
        [("checkback-origin", b"\xff:1:1"), ("checkback-tries", b"1"), ("checkback-origin-time", b"1")],
        [("checkback-origin", None), ("checkback-tries", b"1"), ("checkback-origin-time", b"1")],
        ours(b"orders:1:1", b"-100", b"1"),
        ours(b"orders:1:1", b"9" * 4_000, b"1"),
        ours(b"orders:1:1", b"9" * 5_000, b"1"),
        ours(b"orders:-1:1", b"1", b"1"),
        ours(b"orders:1:9223372036854775808", b"1", b"1"),
        ours(b"orders:1:1", b"1", b"-1"),
        [*ours(b"orders:1:1", b"1", b"1"), ("checkback-without-value", b"x")],
    ]
    for headers in foreign:
        message = ReceivedMessage("cb.retry.points", 0, 1, None, b"v", headers)
        assert as_it_was(message) == message


def test_what_the_job_would_reject_is_not_sent_there() -> None:
    for message in (
        ReceivedMessage("orders", 0, 1, None, b"v", [("a\ufffdb", b"")]),
        ReceivedMessage("orders", 0, 1, None, bytes((16 << 20) + 1)),
        ReceivedMessage("orders", 0, 1, None, b"v", [("n", b"")] * 995),
    ):
        with pytest.raises(ProtocolError):
            tried_again(message, OWN, 1)
        assert dead_letter(message, OWN, "no").topic == "cb.dlq.points"


def test_a_tombstone_stays_one() -> None:
    for key in (None, b"k"):
        message = ReceivedMessage("orders", 0, 1, key, None)
        assert dead_letter(message, OWN, "").value is None
        assert tried_again(message, OWN, 1).value is None
        assert for_everybody(message).value is None


def test_headers_that_begin_as_ours_do_travel_under_other_names() -> None:
    headers = [
        ("cb-id", b"tx-17"),
        ("cb-trace", b"1"),
        ("checkback-tries", b"mine"),
        ("cb-none", None),
        ("cb-id", b"2"),
    ]
    half = tried_again(ReceivedMessage("orders", 3, 812, None, b"v", headers), OWN, 1)
    assert half.headers[6:10] == [
        ("checkback-kept-cb-trace", b"1"),
        ("checkback-kept-checkback-tries", b"mine"),
        ("checkback-kept-cb-none", b""),
        ("checkback-kept-cb-id", b"2"),
    ]
    assert half.headers[-1] == ("checkback-without-value", b"2")


def test_topics_are_named_after_the_group() -> None:
    assert OwnTopics.of(Topics("test-"), "a.b") == ("a.b", "test-later", "test-retry.a.b", "test-dlq.a.b")
    for group in ("", "a b", "pünkte", "a" * 250):
        with pytest.raises(ConfigurationError, match="take a name"):
            OwnTopics.of(Topics(), group)


def test_a_message_without_an_id_is_told_from_others_by_its_place() -> None:
    assert ReceivedMessage("orders", 3, 812, None, b"").id == "orders:3:812"
    assert ReceivedMessage("orders", 3, 812, None, b"", [("cb-id", b"tx-17#2")]).id == "tx-17#2"
