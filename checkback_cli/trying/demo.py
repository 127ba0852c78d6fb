"""``checkback demo``."""

from typing import Annotated

import typer


def demo(
    orders: Annotated[int, typer.Option(min=1, help="Orders the shop sends.")] = 1000,
    seed: Annotated[int, typer.Option(help="Decides which orders crash.")] = 1,
) -> None:
    """A shop sends orders, some of its processes crash, and the database and Kafka agree in the end.

    Starts a real Kafka and the real job on this machine; everything is gone afterwards.
    """
    from checkback_cli.trying.demo_shop.demonstration import demonstrate

    if not demonstrate(orders, seed):
        raise typer.Exit(1)
