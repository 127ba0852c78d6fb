"""When what a consumer group has sent back is tried again; and which become its dead letters, where they cannot be."""

import pytest

from checkback.wire.protocol import DELIVER_AT, ID, Topics
from checkback.wire.sent_back import PAUSE, Headers, dead_letter_of, due_after_pause, why_not_a_retry

TOPICS = Topics("cb.")


def half(topic: bytes | None, *more: tuple[str, bytes | None]) -> Headers:
    return [("cb-id", b"1"), ("cb-group", b"points"), ("cb-topic", topic), *more]


def test_what_was_for_a_groups_retry_topic() -> None:
    given = half(b"cb.retry.points", ("a", None), ("a", b"\xff"), ("checkback-tries", b"2"))
    kept = [("a", None), ("a", b"\xff"), ("checkback-tries", b"2"), ("checkback-reason", b"too late")]
    assert dead_letter_of(given, TOPICS, "too late") == ("cb.dlq.points", kept)


@pytest.mark.parametrize(
    "headers",
    [
        *([], half(b"orders"), half(None), half(b"\xff\xfe"), half(b"cb.retry."), half(b"cb.retry.no group")),
        *(half(b"cb.retry." + 300 * b"x"), half(b"orders", ("cb-topic", b"cb.retry.points"))),
        *(half(b"cb.retry.others"), half(b"cb.retry.points", ("cb-cut", b"1 2 3"))),
    ],
)
def test_what_was_for_nobody(headers: Headers) -> None:
    assert dead_letter_of(headers, TOPICS, "because") is None


@pytest.mark.parametrize("off_ms", [0, -7_200_000, 7_200_000])
def test_a_consumers_clock_changes_no_pause(off_ms: int) -> None:
    written = 1_767_225_600_000
    said = str(written + off_ms + 30_000).encode()
    headers = [(ID, b"one"), (DELIVER_AT, said), (PAUSE, b"30000"), ("kept", None)]
    due = str(written + 30_000).encode()
    assert due_after_pause(headers, written) == [(ID, b"one"), (DELIVER_AT, due), ("kept", None)]


@pytest.mark.parametrize("wrong", [None, b"", b"-1", b"soon", b"\xff", b"1" * 16])
def test_a_pause_that_is_none_changes_nothing(wrong: bytes | None) -> None:
    """Anybody may write there: the job looks at ``cb-deliver-at`` as it came."""
    assert due_after_pause([(DELIVER_AT, b"7"), (PAUSE, wrong)], 1_000) == [(DELIVER_AT, b"7")]
    assert due_after_pause([(DELIVER_AT, b"7"), (PAUSE, b"1"), (PAUSE, b"2")], 1_000) == [(DELIVER_AT, b"7")]
    assert due_after_pause([(DELIVER_AT, b"7"), (PAUSE, b"1")], -1) == [(DELIVER_AT, b"7")]


def test_what_the_job_alone_may_write_is_no_retry() -> None:
    """No limit and no longest delay holds for a message that the job has held."""
    decided = half(b"cb.retry.points", ("cb-action", b"commit"))
    assert why_not_a_retry(decided, TOPICS) == ""
    assert "no cb-held" in why_not_a_retry([*decided, ("cb-held", b"1 1767225600000 0:7")], TOPICS)
