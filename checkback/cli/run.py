"""``checkback run``."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from checkback.cli.options import ConfigFile
from checkback.cli.signals import leave_on_signals, stop_on_signals
from conf import load
from streaming import BatchReport, TransactionJob
from streaming.failpoints import Witness, nothing

_STOP_SECONDS = 28.0


def run_job(
    config: ConfigFile = None,
    claim_name: Annotated[
        bool,
        typer.Option(
            "--claim-name",
            help="Start on a new checkpoint folder, though another one has read these topics until now: what the half "
            "topic still has is delivered again.",
        ),
    ] = False,
) -> None:
    """Run the job, and the check service with it, until Ctrl-C or SIGTERM.

    The settings, the topics and the checkpoint are checked first; nothing starts when they do not fit together.
    Only then is a job that runs on the same checkpoint taken over, and stops.
    """
    run(config, claim_name=claim_name)


def run(config: Path | None = None, witness: Witness = nothing, *, claim_name: bool = False) -> None:
    """What the command does; ``witness`` is told of each step of a batch."""
    settings = load(config)
    console = Console(soft_wrap=True)
    leave_on_signals()
    console.print(f"Starting Spark ({settings.job.master}) for {settings.kafka.bootstrap_servers} ...", highlight=False)

    def show(report: BatchReport) -> None:
        if report.counts:
            counts = "  ".join(f"{name} {number}" for name, number in sorted(report.counts.items()))
            console.print(f"batch {report.batch}: {report.written} written  {counts}", highlight=False)

    with TransactionJob(settings, show, witness=witness, claim_name=claim_name) as job:
        stopping = stop_on_signals(within=_STOP_SECONDS)
        console.print(f"Running; checkpoint in {settings.job.checkpoint}. Ctrl-C stops it.", highlight=False)
        while not stopping.is_set() and not job.wait(1):
            pass
        console.print("Stopping ...")
