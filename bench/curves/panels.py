"""What is drawn of a result: panels, each with its curves. Pure."""

from collections.abc import Sequence
from typing import NamedTuple

from bench.lasting.many_open import OpenResult
from bench.lasting.soak import SoakResult
from bench.latency import LatencyResult


class Curve(NamedTuple):
    """Points in order; ``name`` is in the legend."""

    name: str
    x: Sequence[float]
    y: Sequence[float]


class Panel(NamedTuple):
    """One pair of axes."""

    title: str
    x: str
    curves: Sequence[Curve]
    logarithmic: bool = False
    """The x axis."""


def panels_of_open(results: Sequence[OpenResult]) -> list[Panel]:
    """Time and room over the number of open transactions."""
    kinds = (
        ("Time of a batch (s)", ("idle_batch_seconds_p50", "small_batch_seconds_p50")),
        ("Time of the next start (s)", ("running_after_seconds", "delivers_after_seconds")),
        ("Room (MiB)", ("java_mib", "python_mib", "checkpoint_mib", "local_mib")),
    )
    numbers = [result.open_transactions for result in results]
    return [
        Panel(
            title,
            "open transactions",
            [Curve(name, numbers, [getattr(result, name) for result in results]) for name in names],
            logarithmic=True,
        )
        for title, names in kinds
    ]


def panels_of_latency(result: LatencyResult) -> list[Panel]:
    """So many percent took at most so long."""
    percent = list(range(len(result.percentiles_ms)))
    title = f"Op sent until readable, {result.per_second} transactions a second"
    return [Panel(title, "ms", [Curve("percent of all", result.percentiles_ms, percent)])]


def panels_of_soak(result: SoakResult) -> list[Panel]:
    """Each figure over time, with its slope's verdict; the job was started again between two curves."""
    return [
        Panel(
            f"{name}: {result.slopes[name].verdict}" if name in result.slopes else name,
            "minutes",
            [
                Curve(f"half {number}", [at / 60 for at, _ in half], [figure for _, figure in half])
                for number, half in enumerate(halves, 1)
            ],
        )
        for name, halves in result.series.items()
    ]
