"""``checkback run``."""

from typing import Annotated

import typer

from checkback_cli.terminal.options import BootstrapServer, ConfigFile
from conf import load
from conf.log_lines import log_to_stdout


def run_job(
    config: ConfigFile = None,
    bootstrap_server: BootstrapServer = None,
    new_checkpoint: Annotated[
        bool,
        typer.Option(
            "--new-checkpoint",
            help="Start on a new checkpoint folder, though another one has read these topics until now: what the half "
            "topic still has is delivered again.",
        ),
    ] = False,
) -> None:
    """Run the job, and the check service with it, until Ctrl-C or SIGTERM.

    The settings, the topics and the checkpoint are checked first; nothing starts when they do not fit together.
    Only then is a job that runs on the same checkpoint taken over, and stops.
    """
    from streaming.running import run

    settings = load(config, bootstrap_server)
    log_to_stdout(settings.log)
    run(settings, new_checkpoint=new_checkpoint)
