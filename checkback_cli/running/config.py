"""``checkback config``."""

import json
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from checkback_cli.terminal.options import BootstrapServer, ConfigFile
from conf import SettingOrigin, default_text, load, origins

_STYLES = {
    SettingOrigin.DEFAULT: "dim",
    SettingOrigin.FILE: "cyan",
    SettingOrigin.ENVIRONMENT: "magenta",
    SettingOrigin.COMMAND_LINE: "green",
}


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
