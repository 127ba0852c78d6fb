"""What a transaction and a batch cost between two batches, and whether the JIT was done by then."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from bench.cost.course import DoneBatch
from bench.cost.groups import BROKER, GROUPS, JIT, MACHINE, OTHERS, CpuSeconds
from checkback.exceptions import CheckbackError

WARM_SHARE = 0.10
"""Of the CPU in the last third of a window, at most, that the JIT may take where the job counts as warm."""
WARM_FALL = 0.03
"""By so much at most that share may have fallen since the first third."""


@dataclass(frozen=True)
class Cost:
    """CPU time, by group, of a window; the load's is not in it."""

    transactions: int
    batches: int
    cpu_us_per_transaction: float
    """Job and broker."""
    job_us_per_transaction: float
    job_ms_per_batch: float
    without_jit_us_per_transaction: float
    """The job's."""
    without_jit_ms_per_batch: float
    us_per_transaction: dict[str, float]
    ms_per_batch: dict[str, float]
    jit_share: float
    """Of the job's."""
    jit_share_of_thirds: list[float]
    """Of the window's first, second and last batches; fewer figures where it has fewer."""
    others_share: float
    """Of what the machine's cores could do, what other programs took. Beside them the same work takes more CPU time."""
    warm: bool
    """The JIT's share in the last third is ``WARM_SHARE`` at most, and no more than ``WARM_FALL`` below the first's."""


def cost_of(batches: Sequence[DoneBatch]) -> Cost:
    """Of all batches after the first one, whose end is where the window begins.

    Raises:
        CheckbackError: there are fewer than two.
    """
    if len(batches) < 2:
        raise CheckbackError("Fewer than two batches ended while it was measured: measure for longer.")
    first, last = batches[0], batches[-1]
    used = _between(first.cpu, last.cpu)
    transactions = sum(batch.transactions for batch in batches[1:])
    number = last.number - first.number
    parts = min(3, len(batches) - 1)
    cuts = [batches[round(part * (len(batches) - 1) / parts)] for part in range(parts + 1)]
    shares = [_jit_share(_between(begin.cpu, end.cpu)) for begin, end in pairwise(cuts)]
    return Cost(
        transactions=transactions,
        batches=number,
        cpu_us_per_transaction=_round((_of_job(used) + used[BROKER]) / transactions, 1e6),
        job_us_per_transaction=_round(_of_job(used) / transactions, 1e6),
        job_ms_per_batch=_round(_of_job(used) / number, 1e3),
        without_jit_us_per_transaction=_round((_of_job(used) - used[JIT]) / transactions, 1e6),
        without_jit_ms_per_batch=_round((_of_job(used) - used[JIT]) / number, 1e3),
        us_per_transaction={group: _round(used[group] / transactions, 1e6) for group in GROUPS},
        ms_per_batch={group: _round(used[group] / number, 1e3) for group in GROUPS},
        jit_share=_jit_share(used),
        jit_share_of_thirds=shares,
        others_share=round(max(0.0, used[OTHERS]) / used[MACHINE], 3),
        warm=shares[-1] <= WARM_SHARE and shares[0] - shares[-1] <= WARM_FALL,
    )


def seconds_without_jit(begin: CpuSeconds, end: CpuSeconds) -> float:
    """The job's, from one look to another."""
    used = _between(begin, end)
    return _of_job(used) - used[JIT]


def _between(begin: CpuSeconds, end: CpuSeconds) -> CpuSeconds:
    return {group: seconds - begin[group] for group, seconds in end.items()}


def _of_job(used: CpuSeconds) -> float:
    return sum(used[group] for group in GROUPS if group != BROKER)


def _jit_share(used: CpuSeconds) -> float:
    job = _of_job(used)
    return round(used[JIT] / job, 3) if job else 0.0


def _round(seconds: float, unit: float) -> float:
    return round(seconds * unit, 2)
