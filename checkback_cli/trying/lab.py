"""``checkback bench`` and ``checkback torture``, of a distribution of their own, which production has not."""

from collections.abc import Callable
from importlib.util import find_spec

import typer


def add_lab(app: typer.Typer, panel: str) -> None:
    """Add both; where the distribution is not installed, commands that say how to install it."""
    if find_spec("lab_cli") is None:
        anything = {"allow_extra_args": True, "ignore_unknown_options": True}
        for name in ("torture", "bench"):
            app.command(name, rich_help_panel=panel, context_settings=anything)(_missing(name))
        return
    from lab_cli.bench import bench
    from lab_cli.torture import run_torture

    app.command("torture", rich_help_panel=panel)(run_torture)
    app.add_typer(bench, name="bench", rich_help_panel=panel)


def _missing(name: str) -> Callable[[], None]:
    def missing() -> None:
        typer.echo(f"checkback {name} is not in this installation: pip install checkback-lab", err=True)
        raise typer.Exit(2)

    missing.__doc__ = "Is not in this installation: pip install checkback-lab."
    return missing
