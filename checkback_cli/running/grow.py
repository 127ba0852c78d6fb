"""``checkback grow``."""

from typing import Annotated

import typer

from checkback_cli.terminal.options import BootstrapServer, ConfigFile
from conf import load
from conf.log_lines import log_to_stdout


def grow_state(
    state_partitions: Annotated[int, typer.Option(min=1, max=1_000, help="How many the checkpoint shall have.")],
    config: ConfigFile = None,
    bootstrap_server: BootstrapServer = None,
) -> None:
    """Give the checkpoint more state partitions, or fewer, so that more cores share the work. Stop the job before.

    What is open stays open, and producers go on meanwhile. Cut off, type it again: no job starts before it has ended.
    With the number that the checkpoint has, what was begun is given up.
    """
    from streaming.growing import grow

    settings = load(config, bootstrap_server)
    log_to_stdout(settings.log)
    before = grow(settings, state_partitions)
    if before == state_partitions:
        typer.echo(f"{settings.job.checkpoint} has {state_partitions} state partitions.")
        return
    typer.echo(
        f"{settings.job.checkpoint} has {state_partitions} state partitions now, and had {before}. Set "
        f"job.state_partitions = {state_partitions}, then start the job."
    )
