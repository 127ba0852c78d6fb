"""``checkback run``, ``checks``, ``gateway``, ``grow`` and ``config``: the programs and their settings."""

import json
import logging
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from checkback.exceptions import InstallationError
from checkback.signals import stop_on_signals
from checkback_cli.terminal.options import BootstrapServer, ConfigFile
from conf import SettingOrigin, default_text, load, origins
from conf.log_lines import log_to_stdout

_LOGGER = logging.getLogger(__name__)
_STYLES = {
    SettingOrigin.DEFAULT: "dim",
    SettingOrigin.FILE: "cyan",
    SettingOrigin.ENVIRONMENT: "magenta",
    SettingOrigin.COMMAND_LINE: "green",
}


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


def run_checks(config: ConfigFile = None, bootstrap_server: BootstrapServer = None) -> None:
    """Run a check service alone, until Ctrl-C or SIGTERM; the job then needs checks.in_job = false.

    Run as many as you like: they share the checks, and take over from one another. While Kafka is away they wait.
    """
    from prometheus_client import CollectorRegistry

    from checkers import CheckService
    from checkers.metrics import serve

    settings = load(config, bootstrap_server)
    log_to_stdout(settings.log)
    stopping = stop_on_signals()
    registry = CollectorRegistry()
    service = CheckService(settings, registry=registry)
    service.start()
    stop_serving = serve(registry, settings.checks.http_host, settings.checks.http_port, settings.http.names)
    _LOGGER.info("Answering checks for %s. Ctrl-C stops it.", settings.kafka.bootstrap_servers)
    try:
        while not stopping.wait(1):
            service.raise_if_dead()
    finally:
        service.stop()
        stop_serving()


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


def grow_state(
    state_partitions: Annotated[int, typer.Option(min=1, max=1_000, help="How many the checkpoint shall have.")],
    config: ConfigFile = None,
    bootstrap_server: BootstrapServer = None,
) -> None:
    """Give the checkpoint more state partitions, or fewer, so that more cores share the work. Stop the job before.

    What is open stays open, and producers go on meanwhile. Cut off, type it again: no job starts before it has ended.
    With the number that the checkpoint has, what was begun is given up.
    """
    from streaming.growing import grow

    settings = load(config, bootstrap_server)
    log_to_stdout(settings.log)
    before = grow(settings, state_partitions)
    if before == state_partitions:
        typer.echo(f"{settings.job.checkpoint} has {state_partitions} state partitions.")
        return
    typer.echo(
        f"{settings.job.checkpoint} has {state_partitions} state partitions now, and had {before}. Set "
        f"job.state_partitions = {state_partitions}, then start the job."
    )


def config(
    default: Annotated[
        bool, typer.Option("--default", help="Print a settings file with all defaults, to begin with.")
    ] = False,
    spark_properties: Annotated[
        bool,
        typer.Option(
            "--spark-properties",
            help="Print the options that Spark is started with, as spark-submit reads them (--properties-file).",
        ),
    ] = False,
    config: ConfigFile = None,
    bootstrap_server: BootstrapServer = None,
) -> None:
    """Print every setting as it holds, and where its value came from."""
    if default:
        typer.echo(default_text(), nl=False)
        return
    if spark_properties:
        from streaming.session import spark_options

        for name, value in spark_options(load(config, bootstrap_server)).items():
            typer.echo(f"{name}={value}".replace("\\", "\\\\"))
        return
    table = Table("setting", "value", "from", box=None, pad_edge=False)
    for key, value, origin in origins(config, bootstrap_server):
        shown = value if isinstance(value, str) else json.dumps(value)
        table.add_row(key, escape(shown), f"[{_STYLES[origin]}]{origin}[/]")
    Console().print(table)
