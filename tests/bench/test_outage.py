"""The figures of an outage, from samples."""

from pathlib import Path

import pytest

from bench.checkpoint_watch import CheckpointWatch
from bench.outage import Outage
from bench.outage_endpoints import AskedOf, Ledger
from bench.outage_figures import (
    Batch,
    CheckRecords,
    Course,
    Delivery,
    Drained,
    asked,
    batch_seconds,
    delivery_times,
    drain_per_second,
)

COURSE = Course(quiet=10, opening=20, away=30, back=60, killed=70, recovered=80, drained=100)


@pytest.mark.parametrize(
    ("began", "ended", "phase"),
    [
        (9, 11, None),
        (10, 11, "alone"),
        (19, 21, None),
        (25, 26, None),
        (30, 31, "away"),
        (59, 65, "away"),
        (61, 62, "drain"),
        (69, 71, None),
        (75, 76, None),
        (79, 90, None),
        (81, 99, "restarted"),
        (99, 101, "restarted"),
        (101, 102, None),
    ],
)
def test_what_lasts_into_the_kill_or_the_opening_is_left_out(began: float, ended: float, phase: str | None) -> None:
    assert COURSE.phase(began, ended) == phase


def test_delivery_times_are_by_phase_and_beside_those_alone() -> None:
    alone = [Delivery(10 + number / 100, 11 + number / 100, checked=False) for number in range(100)]
    away = [Delivery(30 + number / 100, 34 + number / 100, checked=False) for number in range(50)]
    checked = [Delivery(62, 69, checked=True)]
    times = delivery_times([*alone, *away, *checked], COURSE, checked=False)
    assert times.p50_ms == {"alone": 1000.0, "away": 4000.0}
    assert times.p99_to_alone == {"alone": 1.0, "away": 4.0}
    assert times.counted == {"alone": 100, "away": 50, "drain": 0, "restarted": 0}
    of_checks = delivery_times([*alone, *away, *checked], COURSE, checked=True)
    assert (of_checks.p99_ms, of_checks.p99_to_alone) == ({"drain": 7000.0}, {})


def test_batches_are_by_phase() -> None:
    batches = [Batch(10, 11), Batch(11, 14), Batch(30, 40), Batch(69, 82), Batch(82, 83)]
    assert batch_seconds(batches, COURSE, max) == {"alone": 3, "away": 10, "restarted": 1}


def test_the_rate_of_the_drain_leaves_out_the_kill() -> None:
    samples = [Drained(60, 0), Drained(62, 1_000), Drained(66, 5_000), Drained(82, 5_500), Drained(86, 10_000)]
    # 62 to 86 without 70 to 82
    assert drain_per_second(samples, COURSE) == 750.0


def test_the_last_per_cent_does_not_count_nor_does_nothing() -> None:
    calm = Course()
    assert drain_per_second([Drained(1, 100), Drained(2, 9_950), Drained(99, 10_000)], calm) == 9_850.0
    assert drain_per_second([Drained(1, 0)], calm) == 0.0
    assert drain_per_second([], calm) == 0.0


def test_check_records_are_counted_before_and_after_the_return() -> None:
    found = CheckRecords()
    for at in (31, 59, 61):
        found.add(at, 200, COURSE)
    assert (found.records, found.while_away, found.bytes) == (3, 2, 600)


def test_questions_are_counted_by_transaction() -> None:
    ledger = Ledger(10)
    for name in ("away0-1", "away0-2", "away0-1", "away0-99"):
        ledger.note(name, 65.0)
    assert ledger.told() == AskedOf(65.0, asked=2, asked_again=1)
    assert Ledger(10).told() == AskedOf(None, 0, 0)


def test_asked_again_is_a_share_and_the_first_question_is_timed() -> None:
    found = asked({"a": 62.5, "b": None}, once=200, again=3, course=COURSE)
    assert (found.again_percent, found.after_seconds) == (1.5, {"a": 2.5, "b": None})


def test_the_checkpoint_is_sized_and_its_batches_timed(tmp_path: Path) -> None:
    watch = CheckpointWatch(tmp_path)
    watch.look()
    for log in ("offsets", "commits"):
        (tmp_path / log).mkdir()
        (tmp_path / log / "0").write_bytes(bytes(100))
    (tmp_path / "offsets" / "1").write_bytes(bytes(50))
    (tmp_path / "offsets" / ".1.crc").write_bytes(bytes(5))
    watch.look()
    assert [size.bytes for size in watch.sizes] == [0, 255]
    assert len(watch.batches) == 1


def test_settings_are_the_defaults_or_scaled() -> None:
    assert not [name for name in Outage().settings() if name.startswith("TRANSACTIONS")]
    scaled = Outage(scale=10).settings()
    assert scaled["TRANSACTIONS__UNREACHABLE_BACKOFF_MAX"] == "30000ms"
    assert scaled["TRANSACTIONS__CHECK_INTERVAL"] == "3000ms"
    assert Outage(scale=120).settings()["TRANSACTIONS__CHECK_INTERVAL"] == "1000ms"
