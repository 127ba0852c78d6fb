"""How commands print lists: a table for people, lines with tabs for pipes, JSON for programs."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.measure import Measurement
from rich.table import Table

from checkback.wire.printable import printable

_ANY_WIDTH = 100_000


def show_rows(
    names: Sequence[str], rows: Iterable[Sequence[object]], *, as_json: bool = False, title: str | None = None
) -> None:
    """Print rows with these columns.

    On a terminal it is a table, with the title above it; where that would break words, so that no id could be copied,
    each row is a block of lines, a name and a value each. In a pipe each row is one line, its values whole, with tabs
    between them and no heading. ``as_json``: each row is one JSON object.
    """
    if as_json:
        show_objects(dict(zip(names, row, strict=True)) for row in rows)
        return
    console = Console()
    if not console.is_terminal:
        for row in rows:
            typer.echo("\t".join(printable(str(value)) for value in row))
        return
    rows = list(rows)
    if not rows:
        console.print("None." if title is None else f"{title}: none.")
        return
    _print_rows(console, names, rows, title)


def show_objects(objects: Iterable[Mapping[str, Any]]) -> None:
    """Print each as JSON on a line of its own; what JSON does not know as its text."""
    for one in objects:
        typer.echo(json.dumps(one, ensure_ascii=False, default=str))


def show_pairs(pairs: Iterable[tuple[str, object]]) -> None:
    """Print names with their values: beside one another on a terminal, with a tab between them in a pipe."""
    console = Console(soft_wrap=True)
    if not console.is_terminal:
        for name, value in pairs:
            typer.echo(f"{name}\t{printable(str(value))}")
        return
    _print_pairs(console, pairs)


def _print_rows(console: Console, names: Sequence[str], rows: Sequence[Sequence[object]], title: str | None) -> None:
    table = Table(title=title, title_justify="left")
    for name in names:
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(*(escape(printable(str(value))) for value in row))
    without_limit = console.options.update(max_width=_ANY_WIDTH)
    if Measurement.get(console, without_limit, table).minimum <= console.width:
        console.print(table)
        return
    if title is not None:
        console.print(f"{title}:\n")
    for number, row in enumerate(rows):
        if number:
            console.print()
        _print_pairs(console, zip(names, row, strict=True))


def _print_pairs(console: Console, pairs: Iterable[tuple[str, object]]) -> None:
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for name, value in pairs:
        table.add_row(name, escape(printable(str(value))))
    console.print(table)
