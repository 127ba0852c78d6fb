"""What is drawn of results, and that it is drawn where matplotlib is."""

from pathlib import Path

import pytest

from bench.curves import draw as drawing
from bench.curves.draw import draw, need_drawing
from bench.curves.panels import Curve, Panel, panels_of_open, panels_of_soak
from bench.lasting.many_open import OpenResult
from bench.lasting.slopes import Slope
from bench.lasting.soak import SoakResult
from checkback.exceptions import CheckbackError

SLOPE = Slope(100.5, 1.0, 3.0, 40, "within noise")
SOAK = SoakResult(
    *(20, 100, 120_000, 114_000, 0, 1_200, 900, 30.0),
    {"threads": SLOPE},
    {"threads": [[(60, 100), (120, 101)], [(700, 90)]]},
)


def opened(number: int) -> OpenResult:
    return OpenResult(number, *(float(figure) for figure in range(1, 15)))


def test_open_ones_are_drawn_over_their_number() -> None:
    times, *_ = panels_of_open([opened(10_000), opened(100_000)])
    assert times.curves[0] == Curve("idle_batch_seconds_p50", [10_000, 100_000], [1.0, 1.0])
    assert times.logarithmic


def test_a_soaks_halves_are_curves_of_their_own() -> None:
    (panel,) = panels_of_soak(SOAK)
    assert panel.title == "threads: within noise"
    assert panel.curves == [Curve("half 1", [1, 2], [100, 101]), Curve("half 2", [700 / 60], [90])]


def test_without_matplotlib_one_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drawing, "find_spec", lambda _: None)
    with pytest.raises(CheckbackError, match=r"checkback-lab\[plot\]"):
        need_drawing()


def test_a_file_is_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    panels = [Panel(f"panel {number}", "x", [Curve("a", [1, 10], [1, 2])], number == 1) for number in range(4)]
    draw(panels, tmp_path / "curves.png")
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")
