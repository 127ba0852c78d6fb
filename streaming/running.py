"""Runs the job until it ends by itself or the process is told to stop; logs what it does."""

import logging
import threading
import time

from checkback.exceptions import KafkaLostError
from checkback.kafka.outages import Outage
from checkback.signals import leave_on_signals, stop_on_signals
from conf import Settings
from conf.log_lines import FIELDS
from streaming.batch.batch import SIZES, BatchReport
from streaming.batch.failpoints import FailpointHook, no_failpoint
from streaming.job import TransactionJob

_LOGGER = logging.getLogger(__name__)
_STOP_SECONDS = 28.0
_MOST_REASONS = 5
"""Lines about one batch; 'checkback rejected' and 'checkback parked list' show all."""
_TRUSTS = (
    "There is no access policy: whoever may write to %s and %s is trusted to send to every topic that this job may "
    "write to, and to decide every transaction. See docs/security.md."
)
_TRUSTS_GROUPS = (
    "The access policy says which group may send where. Of groups without keys whoever may write to %s and %s is "
    "trusted to name only its own group, and to decide their transactions. See docs/access-policy.md."
)
_HINTS = {
    "held": "It is tried again with growing pauses",
    "parked": "See 'checkback parked list'",
    "rejected": "Nothing comes of it: see 'checkback rejected'",
}


def run(settings: Settings, failpoint: FailpointHook = no_failpoint, *, new_checkpoint: bool = False) -> None:
    """Run the job, until Ctrl-C or SIGTERM.

    Raises:
        CheckbackError: the job ended by itself.
    """
    leave_on_signals()
    _LOGGER.info("Starting on Spark (%s), for %s ...", settings.job.master, settings.kafka.bootstrap_servers)
    _LOGGER.info(
        _TRUSTS_GROUPS if settings.access.policy else _TRUSTS, settings.kafka.topics.half, settings.kafka.topics.op
    )
    with TransactionJob(settings, log_batch, failpoint=failpoint, new_checkpoint=new_checkpoint) as job:
        stopping = stop_on_signals(within=_STOP_SECONDS)
        _LOGGER.info("Running; checkpoint in %s. Ctrl-C stops it.", settings.job.checkpoint)
        outage = Outage("running the query", lambda: time.monotonic_ns() // 1_000_000)
        while not stopping.is_set() and not ended(job, outage, stopping):
            pass
        _LOGGER.info("Stopping ...")


def ended(job: TransactionJob, outage: Outage, stopping: threading.Event) -> bool:
    """Watch the job for a second: whether it has ended by itself. While Kafka is away, wait for it instead.

    Raises:
        CheckbackError: the job ended, or cannot continue when Kafka is back.
    """
    try:
        if outage.lasts:
            job.start_again()
            outage.answered()
        return job.wait(1)
    except KafkaLostError as error:
        stopping.wait(outage.failed(error))
        return False


def log_batch(report: BatchReport) -> None:
    """One line for a batch that did something, and one for each reason why messages were not delivered."""
    if not report.counts.keys() - SIZES:
        return
    counts = {name: number for name, number in sorted(report.counts.items()) if name not in SIZES}
    said = "  ".join(f"{name} {number}" for name, number in counts.items())
    fields = {"event": "batch", "batch": report.batch, "written": report.written, "counts": counts}
    _LOGGER.info("batch %d: %d written  %s", report.batch, report.written, said, extra={FIELDS: fields})
    for (what, reason), number in report.reasons.most_common(_MOST_REASONS):
        ids = report.examples.get((what, reason), [])
        fields = {"event": what, "batch": report.batch, "number": number, "reason": reason, "transactions": ids}
        _LOGGER.warning(
            "batch %d: %d %s%s: %s. %s.",
            *(report.batch, number, what, _named(ids, number), reason.rstrip("."), _HINTS[what]),
            extra={FIELDS: fields},
        )
    more = len(report.reasons) - _MOST_REASONS
    if more > 0:
        _LOGGER.warning("batch %d: %d more reasons of held, parked or rejected messages.", report.batch, more)


def _named(ids: list[str], number: int) -> str:
    if not ids:
        return ""
    return f" ({', '.join(ids)}{' and others' if number > len(ids) else ''})"
