"""Which half messages become dead letters of a consumer group, where they cannot be tried again."""

import pytest

from checkback.protocol import Topics
from checkback.sent_back import Headers, dead_letter_of

TOPICS = Topics("cb.")


def half(topic: bytes | None, *more: tuple[str, bytes | None]) -> Headers:
    return [("cb-id", b"1"), ("cb-topic", topic), *more]


def test_what_was_for_a_groups_retry_topic() -> None:
    given = half(b"cb.retry.points", ("a", None), ("a", b"\xff"), ("checkback-tries", b"2"))
    assert dead_letter_of(given, TOPICS, "too late") == (
        "cb.dlq.points",
        [("a", None), ("a", b"\xff"), ("checkback-tries", b"2"), ("checkback-reason", b"too late")],
    )


@pytest.mark.parametrize(
    "headers",
    [
        [],
        half(b"orders"),
        half(None),
        half(b"\xff\xfe"),
        half(b"cb.retry."),
        half(b"cb.retry.no group"),
        half(b"cb.retry." + 300 * b"x"),
        half(b"orders", ("cb-topic", b"cb.retry.points")),
        half(b"cb.retry.points", ("cb-cut", b"1 2 3")),
    ],
)
def test_what_was_for_nobody(headers: Headers) -> None:
    assert dead_letter_of(headers, TOPICS, "because") is None
