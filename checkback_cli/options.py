"""Options that several commands have."""

from pathlib import Path
from typing import Annotated

import typer

ConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--config",
        "-c",
        help="TOML file with settings (default: the one CHECKBACK_CONFIG names, if any). See conf/default.toml.",
        show_default=False,
    ),
]
