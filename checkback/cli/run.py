"""``checkback run``."""

from pathlib import Path

from rich.console import Console

from checkback.cli.options import ConfigFile
from checkback.cli.signals import stop_on_signals
from conf import load
from streaming import BatchReport, TransactionJob
from streaming.steps import Witness, nothing


def run_job(config: ConfigFile = None) -> None:
    """Run the job, and the check service with it, until Ctrl-C or SIGTERM.

    The settings, the topics and the checkpoint are checked first; nothing starts when they do not fit together.
    """
    run(config)


def run(config: Path | None = None, witness: Witness = nothing) -> None:
    """What the command does; ``witness`` is told of each step of a batch."""
    settings = load(config)
    console = Console(soft_wrap=True)
    stopping = stop_on_signals()
    console.print(f"Starting Spark ({settings.job.master}) for {settings.kafka.bootstrap_servers} ...", highlight=False)

    def show(report: BatchReport) -> None:
        if report.counts:
            counts = "  ".join(f"{name} {number}" for name, number in sorted(report.counts.items()))
            console.print(f"batch {report.batch}: {report.written} written  {counts}", highlight=False)

    with TransactionJob(settings, show, witness=witness) as job:
        console.print(f"Running; checkpoint in {settings.job.checkpoint}. Ctrl-C stops it.", highlight=False)
        while not stopping.is_set() and not job.wait(1):
            pass
        console.print("Stopping ...")
