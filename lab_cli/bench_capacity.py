"""``checkback bench capacity``."""

from dataclasses import asdict
from typing import Annotated

import typer

from lab_cli.bench_figures import JsonFile, show


def capacity(
    per_second: Annotated[float, typer.Option("--per-second", "--rate", min=1, help="Transactions per second.")],
    value_bytes: Annotated[int, typer.Option(min=0, help="Size of a message.")] = 256,
    open_seconds: Annotated[float, typer.Option(min=0, help="For how long a transaction is undecided.")] = 5.0,
    unanswered_percent: Annotated[float, typer.Option(min=0, max=100, help="Of them a check decides.")] = 1.0,
    kept_days: Annotated[float, typer.Option(min=0, help="Retention of half messages and ops.")] = 12.0,
    replicas: Annotated[int, typer.Option(min=1, help="Of each topic.")] = 3,
    json_file: JsonFile = None,
) -> None:
    """What a load needs: arithmetic on what was measured on two cores. docs/capacity.md says what it is worth."""
    from bench import Load, needs_of

    load = Load(per_second, value_bytes, open_seconds, unanswered_percent / 100, kept_days, replicas)
    show(asdict(needs_of(load)), json_file)
