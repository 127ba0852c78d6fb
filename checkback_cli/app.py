"""The ``checkback`` command: puts the commands together and turns our errors into one clear message."""

import inspect
import io
import sys
from typing import Annotated, NoReturn

import typer
from rich.console import Console
from rich.markup import escape

from checkback.exceptions import CheckbackError, KafkaUnreachableError, WrongOptionError
from checkback.kafka.kafka_python.errors import refused
from checkback.kafka.kafka_python.library import KafkaError
from checkback.version import __version__
from checkback.wire.printable import printable
from checkback_cli.access.commands import access
from checkback_cli.doctor import doctor
from checkback_cli.groups.commands import dlq, offsets
from checkback_cli.groups.overview import groups
from checkback_cli.on_call.decide import commit, redeliver, resume, rollback
from checkback_cli.on_call.in_doubt import in_doubt
from checkback_cli.on_call.read import read
from checkback_cli.on_call.records import audit, parked, rejected
from checkback_cli.on_call.show import show
from checkback_cli.on_call.status import status
from checkback_cli.on_call.tail import tail
from checkback_cli.running.commands import config, grow_state, run_checks, run_gateway, run_job
from checkback_cli.running.topics import topics
from checkback_cli.terminal.options import TRY_AGAIN
from checkback_cli.trying.commands import add_lab, demo, kafka, send
from conf.log_lines import last_line

app = typer.Typer(
    name="checkback",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    help=(
        "Transactional messages for Kafka: a message appears if, and only if, your database transaction commits.\n\n"
        "Try it: checkback demo. Run it: checkback topics create, then checkback run. Settings: checkback config.\n\n"
        "Something is stuck: checkback status, checkback open, checkback show TX, checkback commit TX or rollback TX. "
        "Something does not work: checkback doctor."
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


_ON_CALL, _RUN, _TRY = "On call", "Run it", "Try and measure it"
for _name, _command in (
    *(("status", status), ("doctor", doctor), ("open", in_doubt), ("show", show)),
    *(("commit", commit), ("rollback", rollback), ("resume", resume), ("redeliver", redeliver)),
):
    app.command(_name, rich_help_panel=_ON_CALL)(_command)
app.add_typer(parked, name="parked", rich_help_panel=_ON_CALL)
for _name, _command in (("rejected", rejected), ("groups", groups), ("audit", audit), ("tail", tail)):
    app.command(_name, rich_help_panel=_ON_CALL)(_command)
app.add_typer(dlq, name="dlq", rich_help_panel=_ON_CALL)
app.add_typer(offsets, name="offsets", rich_help_panel=_ON_CALL)
app.command("run", rich_help_panel=_RUN)(run_job)
app.command("checks", rich_help_panel=_RUN)(run_checks)
app.command("gateway", rich_help_panel=_RUN)(run_gateway)
app.add_typer(topics, name="topics", rich_help_panel=_RUN)
app.add_typer(access, name="access", rich_help_panel=_RUN)
app.command("config", rich_help_panel=_RUN)(config)
app.command("grow", rich_help_panel=_RUN)(grow_state)
for _name, _command in (("demo", demo), ("kafka", kafka), ("send", send), ("read", read)):
    app.command(_name, rich_help_panel=_TRY)(_command)
add_lab(app, _TRY)


def _unfold(group: typer.Typer) -> None:
    """Have the terminal fold the help of all commands: where our lines end, a narrow one would fold twice."""
    for command in group.registered_commands:
        paragraphs = (inspect.getdoc(command.callback) or "").split("\n\n")
        command.help = "\n\n".join(one if "\b" in one else one.replace("\n", " ") for one in paragraphs)
    for inner in group.registered_groups:
        if inner.typer_instance is not None:
            _unfold(inner.typer_instance)


_unfold(app)


def run() -> None:
    """Run the command line.

    Exit status 2 for wrong arguments and options of Kafka's clients, 75 for an error that may pass, 1 for any other.
    """
    _spell_out()
    try:
        app()
    except CheckbackError as error:
        _end(error)
    except KafkaError as error:
        found = refused(error)
        if found is not None:
            _end(found)
        if error.retriable:
            _end(_did_not_answer(error))
        sys.stderr.write(f"{type(error).__name__}: {error or 'Kafka says no more'}\n")
        sys.exit(1)
    except OSError as error:  # a full disk behind standard output, for example
        sys.exit(f"{type(error).__name__}: {error}")


def _spell_out() -> None:
    """Write a character that the terminal's encoding does not have as its escape, instead of ending in an error."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _did_not_answer(error: KafkaError) -> KafkaUnreachableError:
    said = str(error) or type(error).__name__
    return KafkaUnreachableError(
        f"Kafka did not answer ({said}): try again. Of several brokers one may have been lost a moment ago; after some "
        "seconds another leads what it led."
    )


def _end(error: CheckbackError) -> NoReturn:
    name = type(error).__name__
    lines = [printable(line) for line in str(error).split("\n")]
    logged = last_line(f"{name}: {' '.join(line.strip() for line in lines)}")
    console = Console(stderr=True, soft_wrap=True, highlight=False)
    console.print(f"[bold red]{name}[/]: " + escape("\n".join(lines)) if logged is None else escape(printable(logged)))
    sys.exit(2 if isinstance(error, WrongOptionError) else TRY_AGAIN if error.retriable else 1)
