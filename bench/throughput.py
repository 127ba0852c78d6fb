"""Throughput: Kafka in, segments, exactly-once Kafka out, on a backlog that is there before the job starts."""

import time
from dataclasses import dataclass
from itertools import pairwise

from bench.workload import delivered_once, workplace, write_backlog
from checkback.exceptions import CheckbackError
from streaming import BatchReport, TransactionJob

_LIMIT_SECONDS = 600.0


@dataclass(frozen=True)
class ThroughputResult:
    """``transactions_per_second`` counts warm batches only."""

    transactions_per_second: float
    transactions: int
    warm_up_transactions: int
    seconds: float
    value_bytes: int
    batch_seconds: list[float]
    delivered_once: int


def measure_throughput(transactions: int = 300_000, value_bytes: int = 256, cores: int = 2) -> ThroughputResult:
    """Write twice that many transactions, let the job warm up on the first half, and time it on the second.

    Raises:
        CheckbackError: the job did not deliver each transaction exactly once, or not in ten minutes.
    """
    with workplace(cores) as place:
        write_backlog(place.bootstrap_servers, 2 * transactions, value_bytes)
        ends: list[tuple[float, int]] = []

        def observe(report: BatchReport) -> None:
            ends.append((time.monotonic(), report.counts["committed"]))

        with TransactionJob(place.settings, observe) as job:
            deadline = time.monotonic() + _LIMIT_SECONDS
            while sum(committed for _, committed in ends) < 2 * transactions:
                if job.wait(1) or time.monotonic() > deadline:
                    raise CheckbackError(f"The job committed only {sum(c for _, c in ends)} transactions.")
        once = delivered_once(place.bootstrap_servers, 2 * transactions)
    return _result(ends, transactions, value_bytes, once)


def _result(ends: list[tuple[float, int]], transactions: int, value_bytes: int, once: int) -> ThroughputResult:
    total, first_warm = 0, 0
    for index, (_, committed) in enumerate(ends):
        total += committed
        if total >= transactions:
            first_warm = index
            break
    warm = [end for end in ends[first_warm:] if end[1]]
    counted = sum(committed for _, committed in warm[1:])
    seconds = warm[-1][0] - warm[0][0]
    return ThroughputResult(
        transactions_per_second=round(counted / seconds, 1),
        transactions=counted,
        warm_up_transactions=total,
        seconds=round(seconds, 3),
        value_bytes=value_bytes,
        batch_seconds=[round(after[0] - before[0], 3) for before, after in pairwise(ends)],
        delivered_once=once,
    )
