"""What grows and what does not, of made-up series; what a soak's consumer counts; one small run of each measurement."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from bench.checkpoint_watch import Content, folder_content
from bench.lasting.many_open import OpenPlan, measure_open
from bench.lasting.sampling import held_by
from bench.lasting.slopes import Points, slope_of
from bench.lasting.soak import SoakPlan, measure_soak
from bench.lasting.soak_load import MIX, Receipts
from bench.latency import Rate
from checkback.consumer import ConsumeResult, ReceivedMessage
from checkback.wire.protocol import ID

TIMES = np.arange(100) * 5.0
_OPENS_ONE = """
import sys
print(flush=True)
sys.stdin.readline()
opened = open(sys.executable, "rb")
print(flush=True)
sys.stdin.readline()
"""


def points(values: npt.NDArray[np.floating]) -> Points:
    return [(float(at), float(value)) for at, value in zip(TIMES, values, strict=True)]


def verdict(*parts: Points) -> str:
    slope = slope_of(parts)
    assert slope is not None
    return slope.verdict


def test_what_rises_beyond_its_scatter_grows() -> None:
    scatter = np.random.default_rng(1).normal(0, 1, 100)
    assert verdict(points(50 + scatter)) == "within noise"
    assert verdict(points(50 + scatter + TIMES / 100)) == "grows"
    assert verdict(points(50 + scatter - TIMES / 100)) == "falls"


def test_the_slope_is_an_hours() -> None:
    slope = slope_of([points(50 + TIMES / 100)])
    assert slope is not None
    assert (slope.per_hour, slope.samples) == (36.0, 100)
    assert slope.mean == pytest.approx(52.5, abs=0.1)


def test_a_restart_is_no_growth() -> None:
    scatter = np.random.default_rng(2).normal(0, 1, 100)
    after = [(at + 600, value) for at, value in points(90 + scatter)]
    assert verdict(points(50 + scatter), after) == "within noise"


def test_what_wanders_and_what_steps_once_is_not_taken_for_growth() -> None:
    random = np.random.default_rng(3)
    sums = [np.cumsum(random.normal(0, 1, 120)) for _ in range(20)]
    found = [verdict(points(one[20:] - one[:-20])) for one in sums]
    assert found.count("within noise") >= 18
    assert verdict(points(100.0 + (TIMES > 300))) == "within noise"
    assert verdict(points(np.full(100, 7.0))) == "within noise"


def test_of_a_few_samples_nothing_is_said() -> None:
    assert slope_of([[(0, 1), (1, 1)], [(5, 1)]]) is None
    assert slope_of([]) is None


def message(number: int, tries: int = 0) -> ReceivedMessage:
    return ReceivedMessage("orders", 0, number, None, None, ((ID, b"soak-%d" % number),), tries=tries)


def test_each_transaction_is_expected_once_but_for_those_rolled_back() -> None:
    receipts = Receipts()
    due = [number for number in range(200) if MIX.fate(number) != "rollback"]
    first = [receipts.take(message(number)) for number in due]
    assert first.count(ConsumeResult.LATER) == receipts.tried_again == 2
    assert receipts.compared(200) == (188, 2, 0)
    for number in (99, 199):
        assert receipts.take(message(number, tries=1)) is ConsumeResult.SUCCESS
    assert receipts.compared(200) == (190, 0, 0)
    receipts.take(message(0))
    receipts.take(message(50))
    assert receipts.compared(200) == (190, 0, 2)


def test_a_folders_files_are_counted(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "one").write_bytes(bytes(10))
    (tmp_path / "two").write_bytes(bytes(5))
    assert folder_content(tmp_path) == Content(2, 15)
    assert folder_content(tmp_path / "none") == Content(0, 0)


def test_a_process_holds_something() -> None:
    # in a process of its own, in which no other thread opens and closes things
    with subprocess.Popen(
        [sys.executable, "-c", _OPENS_ONE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()
        before = held_by(process.pid)
        process.stdin.write(b"\n")
        process.stdout.readline()
        opened = held_by(process.pid)
        process.stdin.write(b"\n")
    assert opened["descriptors"] - before["descriptors"] == 1
    assert before["driver_mib"] > 1
    assert before["threads"] >= before["processes"] >= 1


@pytest.mark.lab
@pytest.mark.service
def test_a_few_open_ones() -> None:
    (result,) = measure_open([5_000], OpenPlan(rate=Rate(20, 1, 10)))
    assert result.open_transactions == 5_000
    assert 0 < result.idle_batch_seconds_p50 <= result.idle_batch_seconds_most
    assert result.checkpoint_mib > 1
    assert 0 < result.running_after_seconds <= result.delivers_after_seconds


@pytest.mark.lab
@pytest.mark.service
def test_a_short_soak() -> None:
    result = measure_soak(SoakPlan(minutes=0.8, per_second=200, sample_seconds=1.0))
    assert result.delivered == result.transactions - MIX.count("rollback", result.transactions)
    assert result.delivered_again == 0
    assert result.tried_again == pytest.approx(result.transactions / 100, abs=1)
    held = {"java_mib", "workers_mib", "descriptors", "threads", "checkpoint_files", "local_mib", "code_cache_mib"}
    assert held | {"old_generation_mib", "metaspace_mib", "cpu_cores"} <= result.slopes.keys()
    assert all(result.series["batch_seconds"])
