"""``checkback bench workers``."""

from dataclasses import asdict
from typing import Annotated

import typer

from lab_cli.bench_figures import JsonFile, show, tell


def workers(
    transactions: Annotated[int, typer.Option(min=1000, help="Transactions to time.")] = 200_000,
    warm_up: Annotated[int, typer.Option(min=1000, help="Transactions before those that are timed.")] = 300_000,
    value_bytes: Annotated[int, typer.Option(min=0, help="Size of a message.")] = 256,
    share: Annotated[float, typer.Option(min=0.1, max=1.0, help="Of a core, that each worker has.")] = 0.4,
    runs: Annotated[int, typer.Option(min=1, help="With one worker and with two, in turn.")] = 2,
    json_file: JsonFile = None,
) -> None:
    """Transactions per second on Spark's own cluster, with one worker and with two, each held to a share of a core.

    What is left of the cores is for Kafka and the driver. Every delivery must be there once. Linux, as root.
    """
    from bench import WorkersPlan, measure_workers

    plan = WorkersPlan(transactions, warm_up, value_bytes, share, runs)
    show(asdict(measure_workers(plan, tell)), json_file)
