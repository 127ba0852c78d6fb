"""Options that several commands have."""

from pathlib import Path
from typing import Annotated

import typer

from checkback.exceptions import ConfigurationError
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


AsJson = Annotated[bool, typer.Option("--json", help="One JSON object a line.")]
