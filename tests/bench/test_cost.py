"""CPU time by process and thread group: of processes and batches made up for it, and of one small run."""

import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.cost.course import BatchCourse, DoneBatch
from bench.cost.figures import cost_of
from bench.cost.groups import (
    BROKER,
    DRIVER,
    EXECUTOR,
    GROUPS,
    JIT,
    MACHINE,
    OTHER_JAVA,
    OTHERS,
    SINK,
    STATE,
    CpuOfJob,
    CpuSeconds,
)
from bench.cost.guard import accepted_ratios, compared
from bench.cost.job import THIS_TREE
from bench.throughput import after_warm_up, measure_throughput
from bench.workload import LATE, MIXED, Mix, _ops
from checkback.exceptions import CheckbackError
from checkback.wire.protocol import Action

# A line of input: whether the process or a new thread of it takes a name, and the CPU seconds to use under it.
_BURNS = """
import pathlib, sys, threading, time
def use(path, name, seconds):
    pathlib.Path(path).write_text(name)
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass
for line in sys.stdin:
    place, name, seconds = line.strip().split(",")
    if place == "thread":
        done = threading.Event()
        def burn():
            use(f"/proc/self/task/{threading.get_native_id()}/comm", name, float(seconds))
            done.set()
            time.sleep(60)
        threading.Thread(target=burn, daemon=True).start()
        done.wait()
    else:
        use("/proc/self/comm", name, float(seconds))
    print("done", flush=True)
"""
_STARTS = f"import subprocess, sys; sys.exit(subprocess.run([sys.executable, '-c', {_BURNS!r}]).returncode)"


@pytest.fixture
def job() -> Iterator[subprocess.Popen[str]]:
    """A process that has started another, which does as it is told."""
    with subprocess.Popen(
        [sys.executable, "-c", _STARTS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as started:
        yield started
        started.communicate()


def tell(job: subprocess.Popen[str], *orders: str) -> None:
    assert job.stdin is not None
    assert job.stdout is not None
    for order in orders:
        job.stdin.write(order + "\n")
        job.stdin.flush()
        assert job.stdout.readline() == "done\n"


def used(before: CpuSeconds, after: CpuSeconds) -> set[str]:
    """Groups that have used more than the little that standing still does."""
    return {group for group in GROUPS if after[group] - before[group] > 0.05}


def test_a_workers_time_goes_to_what_it_does_at_the_moment(job: subprocess.Popen[str]) -> None:
    cpu = CpuOfJob(job.pid, None)
    tell(job, "process,python,0")
    before = cpu.look()
    tell(job, "process,cb-state-1,0.2")
    cpu.look_at_workers()
    tell(job, "process,cb-sink-1,0.3")
    after = cpu.look()
    assert used(before, after) == {STATE, SINK}
    assert after[STATE] - before[STATE] == pytest.approx(0.2, abs=0.08)
    assert after[SINK] - before[SINK] == pytest.approx(0.3, abs=0.08)


def test_java_is_told_apart_by_thread(job: subprocess.Popen[str]) -> None:
    cpu = CpuOfJob(job.pid, None)
    tell(job, "process,java,0")
    before = cpu.look()
    tell(job, "thread,C2 CompilerThre,0.2", "thread,Executor task l,0.2", "process,java,0.2")
    assert used(before, cpu.look()) == {JIT, EXECUTOR, OTHER_JAVA}


def test_the_broker_is_no_part_of_the_job(job: subprocess.Popen[str]) -> None:
    cpu = CpuOfJob(job.pid, job.pid)
    tell(job, "process,java,0")
    before = cpu.look()
    tell(job, "process,java,0.2")
    after = cpu.look()
    assert after[BROKER] - before[BROKER] == pytest.approx(0.2, abs=0.08)
    assert after[DRIVER] - before[DRIVER] < 0.05


def test_batches_are_those_that_the_job_tells_of(tmp_path: Path) -> None:
    log = tmp_path / "output"
    line = {"time": "2026-11-22T09:30:00.500Z", "event": "batch", "batch": 7, "counts": {"committed": 3, "half": 4}}
    log.write_text(f"WARNING: of Java\n{json.dumps({'message': 'Running;'})}\n{json.dumps(line)}\n{{", encoding="utf-8")
    course = BatchCourse(log, CpuOfJob(2**30, None))
    course.start()
    until = time.monotonic() + 20
    while not course.batches and time.monotonic() < until:
        time.sleep(0.01)
    course.stop()
    (batch,) = course.batches
    assert (batch.number, batch.transactions, batch.at % 1) == (7, 3, 0.5)


def batches(*jit: float) -> list[DoneBatch]:
    """Of 100 transactions each; the JIT's seconds are given, the executor's are 1 and Kafka's 2."""
    return [
        DoneBatch(
            number,
            number,
            {"committed": 90, "rolled_back": 10},
            dict.fromkeys(GROUPS, 0.0)
            | {JIT: sum(jit[1 : number + 1]), EXECUTOR: 1.0 * number, BROKER: 2.0 * number}
            | {OTHERS: 0.5 * number, MACHINE: 10.0 * number},
        )
        for number in range(len(jit))
    ]


def test_costs_are_between_the_first_batchs_end_and_the_lasts() -> None:
    cost = cost_of(batches(9, 1, 0.5, 0.05))
    assert (cost.transactions, cost.batches) == (300, 3)
    assert cost.us_per_transaction[EXECUTOR] == 10_000
    assert cost.ms_per_batch[BROKER] == 2_000
    assert cost.job_ms_per_batch == pytest.approx(1516.67)
    assert cost.without_jit_ms_per_batch == 1_000
    assert cost.others_share == 0.05
    assert cost.jit_share_of_thirds == [0.5, 0.333, 0.048]
    assert not cost.warm


def test_fewer_than_two_batches_are_refused() -> None:
    with pytest.raises(CheckbackError, match="measure for longer"):
        cost_of([])


def test_warm_is_where_the_jit_takes_little_and_no_longer_less() -> None:
    assert cost_of(batches(9, 0.06, 0.05, 0.05)).warm
    assert not cost_of(batches(9, 0.2, 0.2, 0.2)).warm


def test_the_guards_verdict_is_by_the_noise_and_by_the_pairs_own_scatter() -> None:
    assert compared([105.0], [100.0], 0.03).verdict == "within noise"
    assert compared([110.0], [100.0], 0.03).verdict == "worse"
    assert compared([90.0, 91.0], [100.0, 100.0], 0.03).verdict == "better"
    assert compared([130.0, 100.0], [100.0, 100.0], 0.03).verdict == "within noise"


def test_what_the_document_accepts_is_no_failure_until_it_is_worse_still() -> None:
    document = """
| figure | beside | ratio | why |
| --- | --- | --- | --- |
| `job_ms_per_batch` | `cdcf8c5` | 1.20 | each batch is proved whole |
| `job_us_per_transaction` | `cdcf8c5` | 1.20 | |
| `without_jit_ms_per_batch` | `164e4df` | 1.30 | another baseline |
"""
    assert accepted_ratios(document, "cdcf8c5aaaa") == {"job_ms_per_batch": 1.2}
    assert accepted_ratios(document, "") == {}
    assert compared([125.0], [100.0], 0.03, accepted=1.2).verdict == "accepted"
    assert compared([135.0], [100.0], 0.03, accepted=1.2).verdict == "worse"
    assert compared([90.0], [100.0], 0.03, accepted=1.2).verdict == "better"


def test_the_baseline_is_one_commit() -> None:
    assert re.fullmatch(r"[0-9a-f]{40}\n", (THIS_TREE / "bench" / "cost" / "baseline.txt").read_text(encoding="utf-8"))


def test_of_a_mix_late_ops_stand_a_batch_further_back() -> None:
    ops = list(_ops(1_000, MIXED))
    late = [number for number in range(1_000) if MIXED.fate(number) == "late"]
    assert len(late) == 50
    assert [number for number, _ in ops[-50:]] == late
    assert sum(action is Action.ROLLBACK for _, action in ops) == 50
    assert len(ops) == 990
    assert [number for number, _ in _ops(3, Mix())] == [0, 1, 2]
    assert LATE > 1_000


def test_a_backlog_of_one_batch_is_refused() -> None:
    with pytest.raises(CheckbackError, match="more transactions"):
        after_warm_up(batches(1), 10)


@pytest.mark.lab
@pytest.mark.service
def test_a_small_run_with_a_mix() -> None:
    result = measure_throughput(10_000, warm_up=1_000, mixed=True)
    assert result.delivered_once == 10_450
    assert result.cost.transactions == result.transactions
    for group in (EXECUTOR, STATE, SINK, DRIVER, BROKER):
        assert result.cost.us_per_transaction[group] > 0
