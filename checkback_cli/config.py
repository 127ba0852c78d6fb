"""``checkback config``."""

import json

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from checkback_cli.options import ConfigFile
from conf import Origin, origins

_STYLES = {Origin.DEFAULT: "dim", Origin.FILE: "cyan", Origin.ENVIRONMENT: "magenta"}


def config(config: ConfigFile = None) -> None:
    """Print every setting as it holds, and where its value came from."""
    table = Table("setting", "value", "from", box=None, pad_edge=False)
    for key, value, origin in origins(config):
        shown = value if isinstance(value, str) else json.dumps(value)
        table.add_row(key, escape(shown), f"[{_STYLES[origin]}]{origin}[/]")
    Console().print(table)
