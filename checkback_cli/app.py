"""The ``checkback`` command: puts the commands together and turns our errors into one clear message."""

import sys
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from checkback.exceptions import CheckbackError
from checkback.version import __version__
from checkback_cli.bench import bench
from checkback_cli.checks import run_checks
from checkback_cli.config import config
from checkback_cli.demo import demo
from checkback_cli.kafka import kafka
from checkback_cli.options import TRY_AGAIN
from checkback_cli.parked import parked
from checkback_cli.read import read
from checkback_cli.rejected import rejected
from checkback_cli.run import run_job
from checkback_cli.send import send
from checkback_cli.topics import topics
from checkback_cli.torture import run_torture

app = typer.Typer(
    name="checkback",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    help=(
        "Transactional messages for Kafka: a message appears if, and only if, your database transaction commits.\n\n"
        "Try it: checkback demo. Run it: checkback topics create, then checkback run. Settings: checkback config."
    ),
)


def _say_version(asked: bool) -> None:
    if asked:
        typer.echo(f"checkback {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_say_version, is_eager=True, help="Say which version this is.")
    ] = False,
) -> None:
    pass


app.command("demo")(demo)
app.command("run")(run_job)
app.command("checks")(run_checks)
app.add_typer(topics, name="topics")
app.add_typer(parked, name="parked")
app.command("send")(send)
app.command("read")(read)
app.command("rejected")(rejected)
app.command("config")(config)
app.command("kafka")(kafka)
app.command("torture")(run_torture)
app.add_typer(bench, name="bench")


def run() -> None:
    """Run the command line. Exit status 2 for wrong arguments, 75 for an error that may pass, 1 for any other."""
    try:
        app()
    except CheckbackError as error:
        Console(stderr=True, soft_wrap=True).print(
            f"[bold red]{type(error).__name__}[/]: {escape(str(error))}", highlight=False
        )
        sys.exit(TRY_AGAIN if error.retriable else 1)
    except OSError as error:  # a full disk behind standard output, for example
        sys.exit(f"{type(error).__name__}: {error}")
