"""Throughput beside RocketMQ's, in turn on the same machine."""

import contextlib
import csv
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import NamedTuple, Protocol

from bench.running import Tell
from checkback.exceptions import CheckbackError

_SOURCE = Path(__file__).parent
_FILES = ("run.sh", "TxBench.java", "broker.conf", "namesrv.conf", "pom.xml")
_THREADS = 32
_NEEDS = ("bash", "java", "javac", "mvn")


class Measured(Protocol):
    """A result of ours."""

    @property
    def transactions_per_second(self) -> float:
        """What is compared."""


class RocketmqRun(NamedTuple):
    """One line of ``TxBench``'s file."""

    transactions_per_second: float
    p50_ms: float
    p99_ms: float


@dataclass(frozen=True)
class AgainstResult:
    """Rates in transactions a second, one of each round; RocketMQ's from the first send until all is consumed."""

    transactions_per_second: float
    """Ours, median."""
    ratio: float
    """To RocketMQ's best."""
    rocketmq_transactions_per_second: float
    """Its best."""
    ours: list[float]
    rocketmq: list[float]
    rocketmq_p50_ms: float
    """Of its best run, from before the send call to the listener."""
    rocketmq_p99_ms: float
    results: list[Measured]


def measure_against_rocketmq(
    measure: Callable[[], Measured], value_bytes: int, runs: int = 2, tell: Tell = lambda _line: None
) -> AgainstResult:
    """Measure ours, RocketMQ's, RocketMQ's, ours and so on.

    Raises:
        CheckbackError: RocketMQ could not be had, or did not deliver.
    """
    folder = _work_folder()
    results: list[Measured] = []
    theirs: list[RocketmqRun] = []
    for number in range(2 * runs):
        if number % 4 in {0, 3}:
            results.append(measure())
            tell(f"{number + 1} of {2 * runs}, Checkback: {results[-1].transactions_per_second}/s")
        else:
            theirs.append(_rocketmq(folder, value_bytes))
            tell(f"{number + 1} of {2 * runs}, RocketMQ: {theirs[-1].transactions_per_second}/s")
    ours = [result.transactions_per_second for result in results]
    best = max(theirs)
    return AgainstResult(
        transactions_per_second=median(ours),
        ratio=round(median(ours) / best.transactions_per_second, 2),
        rocketmq_transactions_per_second=best.transactions_per_second,
        ours=ours,
        rocketmq=[run.transactions_per_second for run in theirs],
        rocketmq_p50_ms=best.p50_ms,
        rocketmq_p99_ms=best.p99_ms,
        results=results,
    )


def _work_folder() -> Path:
    """A copy of what starts it, kept for its jars."""
    if missing := [program for program in _NEEDS if shutil.which(program) is None]:
        raise CheckbackError(f"RocketMQ is started with {', '.join(missing)}, which this machine has not: install it.")
    folder = Path.home() / ".cache" / "checkback" / "rocketmq-bench"
    folder.mkdir(parents=True, exist_ok=True)
    for name in _FILES:
        shutil.copy(_SOURCE / name, folder)
    return folder


def _rocketmq(folder: Path, value_bytes: int) -> RocketmqRun:
    """The best of a run: 20,000 transactions twice, then 100,000 where messages have 256 B."""
    out = folder / "against.csv"
    out.unlink(missing_ok=True)
    plan = {"REPS": "2", "PS": str(_THREADS), "BS": str(value_bytes), "N": "20000", "GN": "200", "NB": ""}
    plan |= {"LONG": "100000", "MAXOTHER": "1000", "OUT": str(out)}
    said = _said(folder, plan)
    try:
        return best_run(out.read_text(encoding="utf-8"), value_bytes)
    except (OSError, ValueError):
        raise CheckbackError(f"RocketMQ was not measured; in {folder}: {said[-2000:]}") from None


def _said(folder: Path, plan: Mapping[str, str]) -> str:
    """What its script has printed; nothing of it runs afterwards, whatever ends this."""
    running = subprocess.Popen(
        ["bash", "run.sh"],  # noqa: S607  (looked for above)
        cwd=folder,
        env={**os.environ, **plan},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        return running.communicate()[0].decode(errors="replace")
    finally:
        # its client, left alone, looks for its broker for ever, and takes a core for it
        with contextlib.suppress(ProcessLookupError):
            os.killpg(running.pid, signal.SIGKILL)
        running.wait()


def best_run(text: str, value_bytes: int) -> RocketmqRun:
    """Of the runs at full speed in a file of ``TxBench``'s."""
    rows = csv.DictReader(text.splitlines())
    return max(
        RocketmqRun(*(float(row[name]) for name in ("all_tps", "e2e_p50", "e2e_p99")))
        for row in rows
        if row["mode"] == "full" and row["B"] == str(value_bytes)
    )
