"""How ``checkback bench`` prints its figures."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

JsonFile = Annotated[Path | None, typer.Option("--json", help="Write the result there, too.", show_default=False)]
Cores = Annotated[int, typer.Option(min=1, help="Cores Spark may use.")]


def tell(line: str) -> None:
    """On standard error, what is under way."""
    Console(stderr=True, highlight=False, soft_wrap=True).print(line, markup=False)


PlotFile = Annotated[
    Path | None,
    typer.Option("--plot", help="Draw its curves there: .png or .svg. Needs checkback-lab[plot].", show_default=False),
]
Against = Annotated[
    str | None,
    typer.Option(
        help="rocketmq: in turn with a real RocketMQ 5.4, which takes Java, Maven and its jars.", show_default=False
    ),
]
Runs = Annotated[int, typer.Option(min=1, help="With --against: runs of each.")]


def show_against(measure: Callable[[], Any], value_bytes: int, against: str, runs: int, json_file: Path | None) -> None:
    """Measure ours and the other one in turn."""
    from bench import measure_against_rocketmq

    if against != "rocketmq":
        raise typer.BadParameter("rocketmq is all that there is.", param_hint="--against")
    beside = asdict(measure_against_rocketmq(measure, value_bytes, runs, tell))
    show({name: value for name, value in beside.items() if name != "results"}, None)
    if json_file is not None:
        write(beside, json_file)


def can_plot(file: Path | None) -> None:
    """End with one sentence, before anything is measured, where a plot is wanted and cannot be drawn."""
    if file is not None:
        from bench import need_drawing

        need_drawing()


def flat(figures: Mapping[str, Any]) -> dict[str, Any]:
    """Figures of figures under both their names."""
    rows: dict[str, Any] = {}
    for name, value in figures.items():
        if isinstance(value, dict):
            rows |= {f"{name} {inner}": figure for inner, figure in flat(value).items()}
        else:
            rows[name] = value
    return rows


def show(result: dict[str, Any], json_file: Path | None) -> None:
    """A line for each figure."""
    table = Table(box=None, show_header=False, pad_edge=False)
    for name, value in result.items():
        table.add_row(name.replace("_", " "), str(value))
    Console().print(table)
    if json_file is not None:
        write(result, json_file)


def show_with_cost(result: dict[str, Any], json_file: Path | None) -> None:
    """The figures, then CPU time by process and thread group."""
    figures = {name: value for name, value in result.items() if name not in {"cost", "percentiles_ms"}}
    groups = ("us_per_transaction", "ms_per_batch")
    cost = result["cost"]
    show(figures | {name: value for name, value in cost.items() if name not in groups}, None)
    table = Table("CPU time", "us a transaction", "ms a batch", box=None, pad_edge=False)
    for group, microseconds in cost[groups[0]].items():
        table.add_row(group, f"{microseconds:.2f}", f"{cost[groups[1]][group]:.2f}")
    Console().print(table)
    if json_file is not None:
        write(result, json_file)


def write(result: Mapping[str, Any], json_file: Path) -> None:
    """As JSON."""
    json_file.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


def show_columns(results: Sequence[Mapping[str, Any]]) -> None:
    """One column for each result, one line for each figure."""
    table = Table(box=None, show_header=False, pad_edge=False)
    for name in results[0]:
        values = (result[name] for result in results)
        said = (f"{value:,}" if isinstance(value, int | float) else str(value) for value in values)
        table.add_row(name.replace("_", " "), *said)
    Console().print(table)
