"""``checkback gateway``."""

from typing import Annotated

import typer

from checkback.exceptions import InstallationError
from checkback.signals import stop_on_signals
from checkback_cli.terminal.options import BootstrapServer, ConfigFile
from conf import load
from conf.log_lines import log_to_stdout


def run_gateway(
    config: ConfigFile = None,
    bootstrap_server: BootstrapServer = None,
    processes: Annotated[
        int, typer.Option(min=1, max=64, help="Number of processes, at the same ports: one keeps one core busy.")
    ] = 1,
) -> None:
    """Run a gateway for RocketMQ's own clients and for HTTP, until Ctrl-C or SIGTERM.

    Run as many as you like, anywhere: they keep nothing, and any of them ends what another has begun, if all have the
    same gateway.secrets.
    """
    try:
        from gateway.processes import run
    except ImportError as error:
        raise InstallationError(f"This needs: pip install checkback-gateway. ({error})") from error
    settings = load(config, bootstrap_server)
    log_to_stdout(settings.log)
    run(settings, processes, stop_on_signals())
