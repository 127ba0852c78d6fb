"""Transactions a second from the senders' call to the consumer's listener, where everything shares the cores."""

import tempfile
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

from bench.cost.figures import Cost, cost_of
from bench.cost.job import CostedJob, costed_job
from bench.end_to_end.parties import LEAST_BYTES, Consumed, Sent, consume, send
from bench.running import party
from bench.workload import workplace

_LIMIT_SECONDS = 600.0
_MICROSECONDS = 1e6


@dataclass(frozen=True)
class EndToEndPlan:
    """How much."""

    transactions: int = 100_000
    warm_up: int = 100_000
    value_bytes: int = 256
    """At least ``LEAST_BYTES``."""
    threads: int = 32
    """Of the one process that sends."""
    cores: int = 2


@dataclass(frozen=True)
class EndToEndResult:
    """Of what comes after the warm-up. CPU times are in µs a transaction."""

    transactions_per_second: float
    """From the first call until the listener has had all."""
    transactions: int
    warm_up_transactions: int
    value_bytes: int
    threads: int
    seconds: float
    sent_per_second: float
    """Until the last call came back."""
    p50_ms: float
    """From just before the call to the listener."""
    p99_ms: float
    delivered_again: int
    sender_us: float
    consumer_us: float
    cost: Cost


def measure_end_to_end(plan: EndToEndPlan = EndToEndPlan()) -> EndToEndResult:
    """Send as fast as ``threads`` threads can that wait for each call, and time each message.

    Raises:
        CheckbackError: the job ended, or not all was delivered in ten minutes.
    """
    size = max(LEAST_BYTES, plan.value_bytes)
    total = plan.warm_up + plan.transactions
    with (
        workplace(plan.cores) as place,
        tempfile.TemporaryDirectory(prefix="checkback-end-to-end-") as folder,
        costed_job(place, Path(folder)) as job,
        party(send, place.bootstrap_servers, plan.threads, size) as sender,
        party(consume, place.bootstrap_servers, total) as consumer,
    ):
        _round(job, sender, consumer, plan.warm_up, plan.warm_up)
        before = _answer(job, consumer, plan.warm_up)
        sent, after = _round(job, sender, consumer, plan.transactions, total)
    return _result(plan, size, sent, before, after, job)


def _round(
    job: CostedJob, sender: Connection, consumer: Connection, number: int, until_now: int
) -> tuple[Sent, Consumed]:
    sender.send(number)
    after: Consumed = _answer(job, consumer, until_now)
    job.wait_until(sender.poll, _LIMIT_SECONDS, "let the sender end")
    return sender.recv(), after


def _answer(job: CostedJob, party: Connection, order: int) -> Any:
    party.send(order)
    job.wait_until(party.poll, _LIMIT_SECONDS, f"delivered {order} messages")
    return party.recv()


def _result(
    plan: EndToEndPlan, size: int, sent: Sent, before: Consumed, after: Consumed, job: CostedJob
) -> EndToEndResult:
    number = plan.transactions
    arrived = after.arrived[plan.warm_up :]
    last = float(arrived.max())
    times = 1000 * (arrived - after.sent[plan.warm_up :])
    p50, p99 = (round(float(value), 1) for value in np.percentile(times, (50, 99)))
    return EndToEndResult(
        transactions_per_second=round(number / (last - sent.began), 1),
        transactions=number,
        warm_up_transactions=plan.warm_up,
        value_bytes=size,
        threads=plan.threads,
        seconds=round(last - sent.began, 3),
        sent_per_second=round(number / (sent.ended - sent.began), 1),
        p50_ms=p50,
        p99_ms=p99,
        delivered_again=after.again,
        sender_us=round(_MICROSECONDS * sent.cpu_seconds / number, 2),
        consumer_us=round(_MICROSECONDS * (after.cpu_seconds - before.cpu_seconds) / number, 2),
        cost=cost_of([batch for batch in job.batches if sent.began <= batch.at <= last]),
    )
