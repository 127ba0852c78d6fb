"""The guard: whether this checkout takes more CPU time for a transaction, and for a small batch, than another commit.

Each run is a Kafka and a job of its own: a backlog first, of which the second half counts, then a steady trickle. Load,
Kafka and measuring are this checkout's in all runs; the job is ``checkback run`` of the tree that is measured. Runs
alternate, this one first and then the other one first, so that what changes slowly on the machine hits both.
"""

import io
import math
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, stdev

from bench.cost.figures import Cost, cost_of
from bench.cost.job import THIS_TREE, costed_job
from bench.latency import LatencyResult, Rate, latency_of
from bench.running import Tell
from bench.throughput import after_warm_up, rate_of, until_read
from bench.workload import workplace, write_backlog
from checkback.exceptions import CheckbackError

FIGURES = (
    "without_jit_us_per_transaction",
    "without_jit_ms_per_batch",
    "job_us_per_transaction",
    "job_ms_per_batch",
)
"""What is judged, of the job without its Kafka; transactions of a backlog, and small batches."""
PAIR_NOISE = (0.035, 0.03, 0.03, 0.03)
"""Standard deviation of a pair's ratio where both sides are the same commit: docs/performance.md, "The guard"."""
SHORT_PAIR_NOISE = (0.10, 0.10, 0.08, 0.14)
SIGMAS = 2.5
"""Of four figures one is beyond that by chance in one of twenty runs of the guard."""
_LIMIT_SECONDS = 300.0
_DOCUMENT = Path("docs/performance.md")
_CELLS = 4
_SHORTEST_NAME = 7
"""Of a commit, as Git abbreviates it."""
_RATE = Rate(200, 20, 40)


@dataclass(frozen=True)
class GuardPlan:
    """How much is measured."""

    runs: int = 3
    """Pairs."""
    warm_up: int = 300_000
    transactions: int = 300_000
    max_offsets: int = 200_000
    """Of a batch of the backlog: records."""
    rate: Rate = _RATE
    pair_noise: tuple[float, ...] = PAIR_NOISE
    value_bytes: int = 256
    cores: int = 2


SHORT_GUARD = GuardPlan(
    runs=1,
    warm_up=150_000,
    transactions=150_000,
    max_offsets=100_000,
    rate=Rate(200, 10, 20),
    pair_noise=SHORT_PAIR_NOISE,
)


@dataclass(frozen=True)
class GuardRun:
    """One side of a pair."""

    transactions_per_second: float
    backlog: Cost
    small_batches: LatencyResult

    def figure(self, name: str) -> float:
        """One of ``FIGURES``."""
        cost = self.backlog if name.endswith("transaction") else self.small_batches.cost
        return float(getattr(cost, name))


@dataclass(frozen=True)
class Compared:
    """A figure of this checkout beside the other commit's. A ratio above 1: this one takes more."""

    this: list[float]
    other: list[float]
    ratio: float
    """Geometric mean of the pairs' ratios."""
    noise: float
    """By so much it may be off 1 where nothing differs."""
    verdict: str
    """``worse``, ``better``, ``within noise``, or ``accepted``: worse, but docs/performance.md says why."""


@dataclass(frozen=True)
class GuardResult:
    """All runs, and what comes of them."""

    commit: str
    compared: dict[str, Compared]
    this: list[GuardRun]
    other: list[GuardRun]

    @property
    def worse(self) -> bool:
        """Whether one of the figures is."""
        return any(one.verdict == "worse" for one in self.compared.values())


def measure_guard(commit: str, plan: GuardPlan, tell: Tell = lambda _line: None) -> GuardResult:
    """Measure this checkout and ``commit`` of its repository in turn.

    Raises:
        CheckbackError: there is no such commit, or a job did not do its work.
    """
    this: list[GuardRun] = []
    other: list[GuardRun] = []
    with _tree_of_commit(commit) as tree:
        for number in range(2 * plan.runs):
            of_this = number % 4 in {0, 3}
            run = measure_tree(THIS_TREE if of_this else tree, plan)
            (this if of_this else other).append(run)
            figures = ", ".join(f"{run.figure(name):.1f} {name.replace('_', ' ')}" for name in FIGURES)
            figures += f"; others took {max(run.backlog.others_share, run.small_batches.cost.others_share):.0%}"
            tell(f"{number + 1} of {2 * plan.runs}, {'this checkout' if of_this else commit}: {figures}")
    excused = accepted_ratios((THIS_TREE / _DOCUMENT).read_text(encoding="utf-8"), commit)
    found = {
        name: compared(
            [run.figure(name) for run in this], [run.figure(name) for run in other], noise, excused.get(name, 1.0)
        )
        for name, noise in zip(FIGURES, plan.pair_noise, strict=True)
    }
    return GuardResult(commit, found, this, other)


def measure_tree(tree: Path, plan: GuardPlan) -> GuardRun:
    """One run of the job of that tree."""
    total = plan.warm_up + plan.transactions
    bounded = {"JOB__MAX_OFFSETS_PER_TRIGGER": str(plan.max_offsets)}
    with workplace(plan.cores) as place, tempfile.TemporaryDirectory(prefix="checkback-guard-") as folder:
        write_backlog(place.bootstrap_servers, total, plan.value_bytes)
        with costed_job(place, Path(folder), tree, bounded) as job:
            ended = until_read(job, total)
            warm = after_warm_up(job.batches[:ended], plan.warm_up)
            job.wait_until(lambda: job.decided >= total, _LIMIT_SECONDS, f"decided {total} transactions")
            small_batches = latency_of(job, place.bootstrap_servers, plan.rate)
    return GuardRun(rate_of(warm), cost_of(warm), small_batches)


def compared(ours: list[float], theirs: list[float], pair_noise: float, accepted: float = 1.0) -> Compared:
    """Where pairs scatter by more than ``pair_noise``, the machine was noisier than that, and their scatter counts.

    Up to ``accepted`` times the other's, and the noise, more is no failure.
    """
    logs = [math.log(our / their) for our, their in zip(ours, theirs, strict=True)]
    scatter = max(pair_noise, stdev(logs)) if len(logs) > 1 else pair_noise
    noise = SIGMAS * scatter / math.sqrt(len(logs))
    middle = mean(logs)
    if abs(middle) <= noise:
        verdict = "within noise"
    elif middle < 0:
        verdict = "better"
    else:
        verdict = "accepted" if accepted > 1 and middle - math.log(accepted) <= noise else "worse"
    return Compared(ours, theirs, round(math.exp(middle), 3), round(noise, 3), verdict)


def accepted_ratios(document: str, commit: str) -> dict[str, float]:
    """By figure, the ratios to ``commit`` that rows of a table accept: figure, commit, ratio, and why."""
    rows = ([cell.strip(" `") for cell in line.strip().strip("|").split("|")] for line in document.splitlines())
    four = (row for row in rows if len(row) == _CELLS)
    return {
        figure: float(ratio)
        for figure, beside, ratio, why in four
        if figure in FIGURES
        and why
        and min(len(beside), len(commit)) >= _SHORTEST_NAME
        and (beside.startswith(commit) or commit.startswith(beside))
    }


@contextmanager
def _tree_of_commit(commit: str) -> Iterator[Path]:
    """The files of a commit in a temporary folder."""
    command = ["git", "-C", str(THIS_TREE), "archive", "--format=tar", commit]
    try:
        archive = subprocess.run(command, check=True, capture_output=True).stdout  # noqa: S603  (git itself)
    except (OSError, subprocess.CalledProcessError) as error:
        said = getattr(error, "stderr", b"") or str(error).encode()
        raise CheckbackError(f"{THIS_TREE} gives no commit {commit}: {said.decode(errors='replace').strip()}") from None
    with tempfile.TemporaryDirectory(prefix="checkback-commit-") as folder:
        with tarfile.open(fileobj=io.BytesIO(archive)) as files:
            files.extractall(folder, filter="data")
        yield Path(folder)
