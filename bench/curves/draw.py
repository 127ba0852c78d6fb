"""Panels into a file, by matplotlib, which is asked for only here."""

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from bench.curves.panels import Panel
from checkback.exceptions import CheckbackError

_COLUMNS = 3
_INCHES = (5.0, 3.2)
"""Of a panel."""


def need_drawing() -> None:
    """Before anything is measured.

    Raises:
        CheckbackError: matplotlib is not installed.
    """
    if find_spec("matplotlib") is None:
        raise CheckbackError("Curves are drawn with matplotlib: pip install 'checkback-lab[plot]'.")


def draw(panels: Sequence[Panel], file: Path) -> None:
    """The file's ending says what it is: .png, .svg, .pdf."""
    from matplotlib.figure import Figure  # noqa: PLC0415  (it need not be there)

    columns = min(_COLUMNS, len(panels))
    rows = -(-len(panels) // columns)
    figure = Figure(figsize=(columns * _INCHES[0], rows * _INCHES[1]), layout="constrained")
    for panel, axes in zip(panels, figure.subplots(rows, columns, squeeze=False).flat, strict=False):
        for curve in panel.curves:
            marker = "o" if panel.logarithmic else None
            axes.plot(curve.x, curve.y, label=curve.name.replace("_", " "), linewidth=1, marker=marker)
        axes.set_title(panel.title.replace("_", " "), fontsize="medium")
        axes.set_xlabel(panel.x)
        if panel.logarithmic:
            axes.set_xscale("log")
            axes.set_ylim(bottom=0)
        axes.legend(fontsize="small")
        axes.grid(visible=True, alpha=0.3)
    for unused in figure.axes[len(panels) :]:
        unused.remove()
    figure.savefig(file)
