"""Large content of half messages is not kept: whoever writes it reads it again."""

import pytest

from state import Policy, Segment, evaluate, segment_to_bytes
from state.content import KEPT_BYTES
from tests.state.ops import CHECK_COMMIT, COMMIT
from tests.state.records import Driver, Half, Op, arrivals
from tests.state.small import POLICY, opened


def test_a_segment_full_of_large_messages_is_small() -> None:
    """2,200 of 1 MB each could not be written, and the job did not start any more."""
    large = b"v" * 1_000_000
    halves = [Half(offset, f"tx-{offset}", value=large) for offset in range(2_200)]
    segment = evaluate(Segment.new(0, Policy()), arrivals(halves), 0, Policy()).segment
    assert segment
    assert len(segment_to_bytes(segment)) < 1_000_000


def test_no_state_is_larger_than_what_is_kept_of_each_message() -> None:
    most = b"v" * (KEPT_BYTES - 3)  # and the key
    halves = [Half(offset, f"tx-{offset}", value=most) for offset in range(4_096)]
    segment = evaluate(Segment.new(0, Policy()), arrivals(halves), 0, Policy()).segment
    assert segment
    assert 4_096 * KEPT_BYTES < len(segment_to_bytes(segment)) < 4_096 * (KEPT_BYTES + 256)


def test_a_message_that_is_decided_when_it_comes_has_its_content() -> None:
    driver = Driver(POLICY)
    (delivered,) = driver.step(0, Half(value=b"v" * 10_000), COMMIT).delivered
    assert (delivered.value, delivered.left_out) == (b"v" * 10_000, -1)


@pytest.mark.parametrize(
    ("half", "key", "headers", "left_out"),
    [
        (Half(value=b"v" * 5_000, headers="h"), b"key", "h", 5_000),
        (Half(value=b"v", headers="h" * 5_000), b"key", None, 5_001),
        (Half(value=b"v", key=b"k" * 4_097, headers="h"), None, None, 4_099),
        (Half(value=b"v" * 4_000, headers="h" * 500), b"key", "h" * 500, 4_000),
        (Half(value=None, headers="h", left_out=20_000), b"key", "h", 20_000),
        (Half(value=None, headers="h" * 5_000, left_out=20_000), b"key", None, 25_000),
    ],
)
def test_of_a_large_message_the_place_the_size_and_short_key_and_headers_stay(
    half: Half, key: bytes | None, headers: str | None, left_out: int
) -> None:
    driver = Driver(POLICY, stored=True)
    driver.step(0, half)
    (delivered,) = driver.step(1, CHECK_COMMIT).delivered
    assert delivered[5:8] == (key, None, headers)
    assert (delivered.offset, delivered.left_out) == (0, left_out)


@pytest.mark.parametrize(("size", "said"), [(5_000, 5_000), (70_000, 70_000)])
def test_a_check_says_how_large_a_value_is_that_is_not_there(size: int, said: int) -> None:
    driver = opened(half=Half(value=b"v" * size))
    (check,) = driver.step(POLICY.transaction_timeout_ms).checks
    assert (check.message.value, check.left_out, check.message.key) == (None, said, b"key")


def test_what_is_parked_is_read_again_too() -> None:
    driver = opened(half=Half(value=b"v" * 5_000))
    (parked,) = driver.step(POLICY.age_limit_ms).parked
    assert parked.message.left_out == 5_000
    (delivered,) = driver.step(POLICY.age_limit_ms + 1, Op("operator_commit", source="operator")).delivered
    assert delivered.left_out == 5_000
