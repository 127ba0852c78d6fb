"""A retry's pause is the consumer's; when it is over is by the job's clock."""

import pytest

from checkback.protocol import DELIVER_AT, ID
from streaming.pauses import by_this_clock

HOUR_MS = 3_600_000
NOW = 500 * HOUR_MS


@pytest.mark.parametrize("off_ms", [0, -2 * HOUR_MS, 2 * HOUR_MS])
def test_a_consumers_clock_changes_no_pause(off_ms: int) -> None:
    written = NOW + off_ms
    headers = [(ID, b"one"), (DELIVER_AT, str(written + 30_000).encode()), ("kept", None)]
    assert by_this_clock(headers, written, NOW + 200) == [
        (ID, b"one"),
        (DELIVER_AT, str(NOW + 30_200).encode()),
        ("kept", None),
    ]


def test_what_is_to_come_at_once_comes_at_once_and_nothing_is_before_now() -> None:
    assert by_this_clock([(ID, b"one")], NOW, NOW) == [(ID, b"one")]
    assert by_this_clock([(DELIVER_AT, b"1")], NOW, NOW) == [(DELIVER_AT, str(NOW).encode())]


@pytest.mark.parametrize("wrong", [None, b"", b"-1", b"soon", b"\xff", b"1" * 16])
def test_what_is_no_time_is_left_to_the_job_to_reject(wrong: bytes | None) -> None:
    assert by_this_clock([(DELIVER_AT, wrong)], NOW, NOW) == [(DELIVER_AT, wrong)]
