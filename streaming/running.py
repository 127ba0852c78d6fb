"""Runs the job until it ends by itself or the process is told to stop."""

from collections.abc import Callable

from checkback.signals import leave_on_signals, stop_on_signals
from conf import Settings
from streaming.batch import BatchReport
from streaming.failpoints import FailpointHook, no_failpoint
from streaming.job import TransactionJob

_STOP_SECONDS = 28.0


def run(
    settings: Settings,
    tell: Callable[[str], None],
    failpoint: FailpointHook = no_failpoint,
    *,
    new_checkpoint: bool = False,
) -> None:
    """Run the job, until Ctrl-C or SIGTERM; ``tell`` is given a line for each thing that an operator should know.

    Raises:
        CheckbackError: the job ended by itself.
    """
    leave_on_signals()
    tell(f"Starting Spark ({settings.job.master}) for {settings.kafka.bootstrap_servers} ...")

    def show(report: BatchReport) -> None:
        if report.counts:
            counts = "  ".join(f"{name} {number}" for name, number in sorted(report.counts.items()))
            tell(f"batch {report.batch}: {report.written} written  {counts}")

    with TransactionJob(settings, show, failpoint=failpoint, new_checkpoint=new_checkpoint) as job:
        stopping = stop_on_signals(within=_STOP_SECONDS)
        tell(f"Running; checkpoint in {settings.job.checkpoint}. Ctrl-C stops it.")
        while not stopping.is_set() and not job.wait(1):
            pass
        tell("Stopping ...")
