"""Options that several commands have, and their exit statuses."""

import re
from pathlib import Path
from typing import Annotated

import typer

from checkback.exceptions import ConfigurationError, ProtocolError
from checkback.wire.protocol import HalfPosition
from conf.durations import parse as milliseconds

ConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--config",
        "-c",
        help="TOML file with settings (default: the one CHECKBACK_CONFIG names). See checkback config --default.",
        show_default=False,
    ),
]

BootstrapServer = Annotated[
    str | None,
    typer.Option(
        "--bootstrap-server",
        "-b",
        help="Kafka's host:port, several with commas; overrides the setting kafka.bootstrap_servers.",
        show_default=False,
    ),
]

WRONG = 1
"""Exit status: something is wrong, or what was asked for is not there."""
TRY_AGAIN = 75
"""Exit status of what may go well another time: EX_TEMPFAIL of sysexits.h."""


def duration_ms(option: str, text: str) -> int:
    """Milliseconds of an option that is a duration.

    Raises:
        ConfigurationError: it is not one.
    """
    try:
        return milliseconds(text)
    except ValueError as error:
        raise ConfigurationError(f"{option} {text}: {error}.") from error


def age(text: str) -> int:
    """Milliseconds of an age on the command line, where ``10m`` are minutes; for typer's ``parser``."""
    try:
        return milliseconds(re.sub(r"m\s*$", "min", text))
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not an age: write 90s, 10m, 2h or 3d.") from None


def place_of_half(text: str) -> HalfPosition:
    """A half message's place on the command line; for typer's ``parser``."""
    try:
        return HalfPosition.parse(text)
    except ProtocolError:
        raise typer.BadParameter(
            f"{text!r} is not the place of a half message: write PARTITION:OFFSET, for example 3:4711."
        ) from None


AsJson = Annotated[bool, typer.Option("--json", help="One JSON object a line.")]
Group = Annotated[str | None, typer.Option(help="Only those of this producer group.", show_default=False)]
Topic = Annotated[str | None, typer.Option(help="Only those for this real topic.", show_default=False)]
OlderThan = Annotated[
    int | None,
    typer.Option(
        "--older-than",
        parser=age,
        metavar="AGE",
        help="Only those that the job took in longer ago: 90s, 10m, 2h, 3d.",
        show_default=False,
    ),
]
JobUrl = Annotated[
    str | None,
    typer.Option(
        "--job",
        metavar="URL",
        help="Where the job's page answers, as http://127.0.0.1:9464; without it the job's claim in Kafka says so.",
        show_default=False,
    ),
]
Since = Annotated[
    int | None,
    typer.Option(parser=age, metavar="AGE", help="Only those of this time: 10m, 2h, 3d.", show_default=False),
]
"""How long ago, in ms."""
Last = Annotated[
    int | None,
    typer.Option("--limit", "-n", min=1, help="List at most this many, the last ones.", show_default=False),
]
