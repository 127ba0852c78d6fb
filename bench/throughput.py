"""Throughput: Kafka in, segments, exactly-once Kafka out, on a backlog that is there before the job starts."""

import tempfile
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path

from bench.cost.course import DoneBatch
from bench.cost.figures import Cost, cost_of
from bench.cost.job import CostedJob, costed_job
from bench.endpoint import commit_endpoint
from bench.signing import SignedBacklog
from bench.workload import ALL_COMMIT, GROUP, MIXED, Mix, delivered_once, workplace, write_backlog
from checkback.exceptions import CheckbackError, ConfigurationError
from checkback.producing.delivery import DeliveryMode

_LIMIT_SECONDS = 600.0


@dataclass(frozen=True)
class ThroughputResult:
    """``transactions_per_second`` and ``cost`` count batches after the warm-up only."""

    transactions_per_second: float
    transactions: int
    warm_up_transactions: int
    seconds: float
    value_bytes: int
    mix: dict[str, int]
    """Percent, of what is not simply committed."""
    batch_seconds: list[float]
    delivered_once: int
    cost: Cost


def measure_throughput(
    transactions: int = 300_000,
    value_bytes: int = 256,
    cores: int = 2,
    warm_up: int | None = None,
    *,
    mixed: bool = False,
    delivery: DeliveryMode = DeliveryMode.JOB,
    signed: bool = False,
) -> ThroughputResult:
    """Write ``warm_up`` more than ``transactions`` (as many where it is None), and time the job on those after it.

    With ``signed`` each record is, and the job's policy wants that. With ``DeliveryMode.DIRECT`` their ops say that a
    lane has delivered them, and the job is to deliver none.

    Raises:
        CheckbackError: the job did not deliver each transaction exactly once, or not in ten minutes.
    """
    by_lane = delivery is DeliveryMode.DIRECT
    if by_lane and mixed:
        raise ConfigurationError("A mix is for the job's own deliveries: leave out one of mixed and delivery.")
    mix = MIXED if mixed else ALL_COMMIT
    before = transactions if warm_up is None else warm_up
    total = before + transactions
    with workplace(cores) as place, tempfile.TemporaryDirectory(prefix="checkback-bench-") as folder:
        policy = SignedBacklog(Path(folder)) if signed else None
        sign = {} if policy is None else {"sign": policy.sign}
        write_backlog(place.bootstrap_servers, total, value_bytes, mix, by_lane=by_lane, **sign)
        endpoint: AbstractContextManager[dict[str, str]] = commit_endpoint(GROUP) if mix.check else nullcontext({})
        with (
            endpoint as asked,
            costed_job(place, Path(folder), settings={**asked, **(policy.settings if policy else {})}) as job,
        ):
            ended = until_read(job, total, mix)
            job.wait_until(lambda: job.decided >= total, _LIMIT_SECONDS, f"decided {total} transactions")
        once = delivered_once(place.bootstrap_servers, 0 if by_lane else total - mix.count("rollback", total))
    return _result(job.batches, ended, before, value_bytes, mix, once)


def until_read(job: CostedJob, transactions: int, mix: Mix = ALL_COMMIT) -> int:
    """Wait until it has read a backlog to its end; how many batches that were."""
    ops = transactions - mix.count("check", transactions)
    job.wait_until(lambda: job.sum("op") >= ops, _LIMIT_SECONDS, f"read {ops} ops")
    read = 0
    for index, batch in enumerate(job.batches):
        read += batch.counts.get("op", 0)
        if read >= ops:
            return index + 1
    raise CheckbackError(f"The job has read {read} of {ops} ops.")


def after_warm_up(batches: Sequence[DoneBatch], warm_up: int) -> Sequence[DoneBatch]:
    """From the batch that ended with so many transactions decided: its end is where the window begins.

    Raises:
        CheckbackError: there is none after it.
    """
    total = 0
    for index, batch in enumerate(batches[:-1]):
        total += batch.transactions
        if total >= warm_up:
            return batches[index:]
    raise CheckbackError("All of the backlog was one batch: measure more transactions.")


def rate_of(batches: Sequence[DoneBatch]) -> float:
    """Transactions a second, of all batches after the first one, whose end is where the time begins."""
    seconds = batches[-1].at - batches[0].at
    return round(sum(batch.transactions for batch in batches[1:]) / seconds, 1)


def _result(
    batches: Sequence[DoneBatch], ended: int, warm_up: int, value_bytes: int, mix: Mix, once: int
) -> ThroughputResult:
    warm = after_warm_up(batches[:ended], warm_up)
    counted = sum(batch.transactions for batch in warm[1:])
    return ThroughputResult(
        transactions_per_second=rate_of(warm),
        transactions=counted,
        warm_up_transactions=sum(batch.transactions for batch in batches[:ended]) - counted,
        seconds=round(warm[-1].at - warm[0].at, 3),
        value_bytes=value_bytes,
        mix=asdict(mix),
        batch_seconds=[round(after.at - before.at, 3) for before, after in pairwise(batches)],
        delivered_once=once,
        cost=cost_of(warm),
    )
