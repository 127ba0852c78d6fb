"""Where a group would go on."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkback.consumer.resetting.reset_plan import Direction, Goal, Move, PartitionOffsets, Target, plan
from checkback.exceptions import OperatorError

NOON_MS = int(datetime(2026, 11, 22, 12, tzinfo=UTC).timestamp() * 1000)


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("earliest", Target(Goal.EARLIEST)),
        ("latest", Target(Goal.LATEST)),
        ("-100", Target(Goal.BY, -100)),
        ("+7", Target(Goal.BY, 7)),
        ("-30s", Target(Goal.TIME, NOON_MS - 30_000)),
        ("-30m", Target(Goal.TIME, NOON_MS - 1_800_000)),
        ("-30 min", Target(Goal.TIME, NOON_MS - 1_800_000)),
        ("-12h", Target(Goal.TIME, NOON_MS - 12 * 3_600_000)),
        ("-1d", Target(Goal.TIME, NOON_MS - 24 * 3_600_000)),
        ("-999999999d", Target(Goal.TIME, 0)),
        ("2026-11-22T12:00", Target(Goal.TIME, NOON_MS)),
        ("2026-11-22T13:00+01:00", Target(Goal.TIME, NOON_MS)),
        ("2026-11-22 12:00:00", Target(Goal.TIME, NOON_MS)),
        ("2026-11-22T12:00:00.250Z", Target(Goal.TIME, NOON_MS + 250)),
        ("2026-11-22", Target(Goal.TIME, NOON_MS - 12 * 3_600_000)),
    ],
)
def test_targets(text: str, target: Target) -> None:
    assert Target.parse(text, NOON_MS) == target


@pytest.mark.parametrize(
    "text",
    ["", "now", "100", "+", "-1w", "+1h", "-h", "time", "by", "2026-13-01", "1969-01-01", "+" + "9" * 19],
)
def test_what_is_no_target_is_refused(text: str) -> None:
    with pytest.raises(OperatorError, match=r"is not a place to go to|is before 1970"):
        Target.parse(text, NOON_MS)


HERE = PartitionOffsets(0, 10, 100, 50, 30)


@pytest.mark.parametrize(
    ("text", "one", "move"),
    [
        ("earliest", HERE, Move(0, 50, 10, Direction.BACK, done=True)),
        ("latest", HERE, Move(0, 50, 100, Direction.FORWARD, done=False)),
        ("2026-11-22T12:00", HERE, Move(0, 50, 30, Direction.BACK, done=True)),
        ("2026-11-22T12:00", HERE._replace(at_time=None), Move(0, 50, 100, Direction.FORWARD, done=False)),
        ("-15", HERE, Move(0, 50, 35, Direction.BACK, done=True)),
        ("-50", HERE, Move(0, 50, 10, Direction.BACK, done=True)),
        ("+15", HERE, Move(0, 50, 65, Direction.FORWARD, done=False)),
        ("+99", HERE, Move(0, 50, 100, Direction.FORWARD, done=False)),
        ("+0", HERE, Move(0, 50, 50, Direction.NEITHER, done=False)),
        ("latest", HERE._replace(stored=None), Move(0, None, 100, Direction.FIRST, done=True)),
        ("earliest", HERE._replace(stored=None), Move(0, None, 10, Direction.FIRST, done=True)),
        ("latest", HERE._replace(stored=120), Move(0, 120, 100, Direction.BACK, done=True)),
        ("-1", HERE._replace(stored=5), Move(0, 5, 10, Direction.FORWARD, done=False)),
    ],
)
def test_what_a_target_comes_to(text: str, one: PartitionOffsets, move: Move) -> None:
    assert plan([one], Target.parse(text, NOON_MS), force=False) == [move]
    forced = move._replace(done=move.done or move.direction is Direction.FORWARD)
    assert plan([one], Target.parse(text, NOON_MS), force=True) == [forced]


def test_each_partition_has_a_direction_of_its_own() -> None:
    here, there = HERE._replace(at_time=70), HERE._replace(partition=1)
    moves = plan([there, here], Target(Goal.TIME, NOON_MS), force=False)
    assert [(move.partition, move.direction, move.done) for move in moves] == [
        (0, Direction.FORWARD, False),
        (1, Direction.BACK, True),
    ]


def test_without_a_stored_offset_there_is_nothing_to_count_from() -> None:
    with pytest.raises(OperatorError, match="no offset for partition 0"):
        plan([HERE._replace(stored=None)], Target(Goal.BY, -1), force=False)


@given(
    low=st.integers(0, 50),
    more=st.integers(0, 50),
    stored=st.none() | st.integers(0, 200),
    at_time=st.none() | st.integers(0, 100),
    text=st.sampled_from(["earliest", "latest", "2026-11-22", "-9", "+9"]),
    force=st.booleans(),
)
def test_nothing_goes_where_there_is_nothing_nor_forward_unforced(
    low: int, more: int, stored: int | None, at_time: int | None, text: str, *, force: bool
) -> None:
    target = Target.parse(text, NOON_MS)
    if stored is None and target.goal is Goal.BY:
        return
    (move,) = plan([PartitionOffsets(0, low, low + more, stored, at_time)], target, force=force)
    assert low <= move.after <= low + more
    if move.done and stored is not None and not force:
        assert move.after < stored
