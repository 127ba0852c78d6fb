"""Options that several commands have."""

from pathlib import Path
from typing import Annotated

import typer

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

AsJson = Annotated[bool, typer.Option("--json", help="One JSON object a line.")]
