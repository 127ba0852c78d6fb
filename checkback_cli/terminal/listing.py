"""How commands print lists: a table for people, lines with tabs for pipes, JSON for programs."""

import json
import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import typer
from rich.cells import cell_len
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from checkback.wire.printable import printable

_POSITIONS = frozenset({"partition", "next", "first", "end", "to", "was at", "goes on at"})
"""Columns of numbers that are no counts, and are copied into other commands: without separators."""
_MOST_NAMED = 20
_FRAME, _PER_COLUMN = 1, 3
"""Of a table's lines, in characters: its left edge, and one column's padding and right edge."""


def show_rows(
    names: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    as_json: bool = False,
    title: str | None = None,
    by: str | None = None,
) -> None:
    """Print rows with these columns.

    On a terminal it is a table, with the title above it; where that would break words, so that no id could be copied,
    each row is a block of lines, a name and a value each; counts have separators (``1,500``). Rows with the same value
    in the column ``by`` stand together there, below that value. In a pipe each row is one line, its values whole and
    plain, with tabs between them and no heading; an empty list is noted on standard error. ``as_json``: each row is one
    JSON object.
    """
    if as_json:
        show_objects(dict(zip(names, row, strict=True)) for row in rows)
        return
    console = Console()
    nothing = "None." if title is None else f"{title}: none."
    if not console.is_terminal:
        empty = True
        for row in rows:
            empty = False
            typer.echo("\t".join(printable(str(value)) for value in row))
        if empty:
            note(nothing)
        return
    rows = list(rows)
    if not rows:
        console.print(nothing)
        return
    if by is None:
        _print_rows(console, names, rows, title)
        return
    at = names.index(by)
    alike: dict[str, list[Sequence[object]]] = {}
    for row in rows:
        alike.setdefault(printable(str(row[at])), []).append([*row[:at], *row[at + 1 :]])
    for value, some in alike.items():
        console.print(f"\n{len(some):,}: {value}", markup=False, highlight=False, soft_wrap=True)
        _print_rows(console, [*names[:at], *names[at + 1 :]], some, None)


def show_objects(objects: Iterable[Mapping[str, Any]]) -> None:
    """Print each as JSON on a line of its own; what JSON does not know as its text."""
    ascii_only = not (sys.stdout.encoding or "").lower().startswith("utf")
    for one in objects:
        typer.echo(json.dumps(one, ensure_ascii=ascii_only, default=str))


def show_pairs(pairs: Iterable[tuple[str, object]]) -> None:
    """Print names with their values: beside one another on a terminal, with a tab between them in a pipe."""
    console = Console(soft_wrap=True)
    if not console.is_terminal:
        for name, value in pairs:
            typer.echo(f"{name}\t{printable(str(value))}")
        return
    _print_pairs(console, pairs)


def _print_rows(console: Console, names: Sequence[str], rows: Sequence[Sequence[object]], title: str | None) -> None:
    said = [[_said(name, value) for name, value in zip(names, row, strict=True)] for row in rows]
    widths = _widths([*zip(names, *said, strict=True)], console.width)
    if widths:
        table = Table(title=title, title_justify="left")
        for name, width in zip(names, widths, strict=True):
            table.add_column(name, width=width)
        for row in said:
            table.add_row(*map(escape, row))
        console.print(table)
        return
    if title is not None:
        console.print(f"{title}:\n")
    for number, row in enumerate(said):
        if number:
            console.print()
        _print_pairs(console, zip(names, row, strict=True))


def _said(name: str, value: object) -> str:
    """A cell for people."""
    counts = isinstance(value, int) and not isinstance(value, bool) and name not in _POSITIONS
    return f"{value:,}" if counts else printable(str(value))


def _widths(columns: Sequence[Sequence[str]], room: int) -> list[int]:
    """How wide each column is to be, so that no word is broken; none: there is no room for that.

    What is left over goes to the columns that need least, so that few cells fold.
    """
    least = [max(cell_len(word) for cell in column for word in (cell.split() or [""])) for column in columns]
    most = [max(map(cell_len, column)) for column in columns]
    left = room - _FRAME - _PER_COLUMN * len(columns) - sum(least)
    if left < 0:
        return []
    widths, by_need = least.copy(), sorted(range(len(columns)), key=lambda n: most[n] - least[n])
    for done, n in enumerate(by_need):
        more = min(most[n] - least[n], left // (len(columns) - done))
        widths[n] += more
        left -= more
    return widths


def _print_pairs(console: Console, pairs: Iterable[tuple[str, object]]) -> None:
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for name, value in pairs:
        table.add_row(name, escape(printable(str(value))))
    console.print(table)


def note_missing(group: str | None, known: Iterable[str]) -> None:
    """When a list has nothing of the group that it is filtered by, note its groups: a name may be mistyped."""
    names = sorted(set(known))
    if group is not None and group not in names:
        more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
        others = f"Groups in this list: {', '.join(names[:_MOST_NAMED])}{more}." if names else "The list is empty."
        note(printable(f"Nothing is of group {group}. {others}"))


def note(text: str) -> None:
    """A sentence beside a list, on standard error. On a terminal no word of it is broken."""
    console = Console(stderr=True)
    if console.is_terminal:
        text = textwrap.fill(text, console.width, break_long_words=False, break_on_hyphens=False)
    typer.echo(text, err=True)
