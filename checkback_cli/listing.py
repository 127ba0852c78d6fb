"""How commands print lists: a table for people, lines with tabs for pipes, JSON for programs."""

import json
from collections.abc import Iterable, Sequence

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from checkback.printable import printable


def show_rows(names: Sequence[str], rows: Iterable[Sequence[object]], *, as_json: bool = False) -> None:
    """Print rows with these columns.

    On a terminal it is a table. In a pipe each row is one line, its values whole, with tabs between them and no
    heading. ``as_json``: each row is one JSON object.
    """
    if as_json:
        for row in rows:
            typer.echo(json.dumps(dict(zip(names, row, strict=True)), ensure_ascii=False))
        return
    console = Console()
    if not console.is_terminal:
        for row in rows:
            typer.echo("\t".join(printable(str(value)) for value in row))
        return
    rows = list(rows)
    if not rows:
        console.print("None.")
        return
    table = Table()
    for name in names:
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(*(escape(printable(str(value))) for value in row))
    console.print(table)
