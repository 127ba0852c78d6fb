"""``checkback bench open`` and ``soak``: what a job holds, and for how long."""

from dataclasses import asdict
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from lab_cli.bench_figures import Cores, JsonFile, PlotFile, can_plot, show, show_columns, tell, write


def open_ones(
    numbers: Annotated[
        list[int] | None,
        typer.Option(
            "--open",
            min=1000,
            help="Open transactions, may be repeated; 10,000, 100,000, 1,000,000.",
            show_default=False,
        ),
    ] = None,
    value_bytes: Annotated[int, typer.Option(min=1, help="Size of a message that is left open.")] = 256,
    per_second: Annotated[int, typer.Option(min=1, help="Transactions per second of the small batches.")] = 50,
    seconds: Annotated[
        int, typer.Option(min=10, help="For how long small batches are timed, and then idle ones.")
    ] = 30,
    warm_up: Annotated[int, typer.Option(min=1, help="Seconds of small batches before those that are timed.")] = 60,
    driver_memory: Annotated[str, typer.Option(help="The job's setting of that name.")] = "2g",
    cores: Cores = 2,
    json_file: JsonFile = None,
    plot_file: PlotFile = None,
) -> None:
    """Time of a batch, memory, bytes and the time of a restart, with many open transactions. On Linux.

    A column for each number: a Kafka and a job of its own. Nobody is asked for what is open.
    """
    from bench import OpenPlan, Rate, draw, measure_open, panels_of_open

    plan = OpenPlan(value_bytes, Rate(per_second, warm_up, seconds), driver_memory, cores)
    can_plot(plot_file)
    results = measure_open(numbers or (10_000, 100_000, 1_000_000), plan, tell)
    columns = [asdict(result) for result in results]
    show_columns(columns)
    if json_file is not None:
        write({"results": columns}, json_file)
    if plot_file is not None:
        draw(panels_of_open(results), plot_file)


def soak(
    minutes: Annotated[float, typer.Option(min=2, help="How long; the job is started again in the middle.")] = 20.0,
    per_second: Annotated[int, typer.Option(min=1, help="Transactions per second.")] = 1_000,
    driver_memory: Annotated[str, typer.Option(help="The job's setting of that name.")] = "2g",
    cores: Cores = 2,
    json_file: JsonFile = None,
    plot_file: PlotFile = None,
) -> None:
    """Whether anything grows in a job that works for long: memory, descriptors, threads, files, batches. On Linux.

    Of all transactions 5 % are rolled back, 5 % have a late op, 1 % none (a check decides), 2 % are for later, and the
    consumer wants 1 % again. A slope counts beyond three standard errors of its regression.
    """
    from bench import SoakPlan, draw, measure_soak, panels_of_soak

    can_plot(plot_file)
    measured = measure_soak(SoakPlan(minutes, per_second, driver_memory, cores), tell)
    result = asdict(measured)
    show({name: value for name, value in result.items() if name not in {"slopes", "series"}}, None)
    table = Table("", "mean", "an hour", "noise", "", box=None, pad_edge=False)
    for name, slope in result["slopes"].items():
        figures = (f"{slope['mean']:,}", f"{slope['per_hour']:+,}", f"± {slope['noise']:,}")
        table.add_row(name.replace("_", " "), *figures, slope["verdict"])
    Console().print(table)
    if json_file is not None:
        write(result, json_file)
    if plot_file is not None:
        draw(panels_of_soak(measured), plot_file)
