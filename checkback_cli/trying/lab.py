"""``checkback bench`` and ``checkback torture`` run what is in a distribution of its own, which production has not."""

from importlib.util import find_spec

import typer


def need_lab(package: str) -> None:
    """End with status 2 and one sentence when ``package``, named as its command is, is not installed."""
    if find_spec(package) is None:
        typer.echo(f"checkback {package} is not in this installation: pip install checkback-lab", err=True)
        raise typer.Exit(2)
