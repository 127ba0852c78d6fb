"""Small charts of the last hour, as SVG that works without scripts and inline styles, with the same as a table."""

from collections.abc import Sequence
from typing import NamedTuple

from status_page.facts import FlowPoint
from status_page.words import number, utc

WIDTH, HEIGHT = 240, 56
"""Units of the drawing; it is as wide as its place on the page."""
_ROOM = 4
_HOUR_MS = 3_600_000
_TABLE_MS = 300_000
NAMES = (
    ("half", "Half messages"),
    ("committed", "Committed"),
    ("rolled_back", "Rolled back"),
    ("checked", "Checks asked"),
    ("parked", "Parked"),
    ("rejected", "Rejected"),
    ("retried", "Retries of held messages"),
)


class Chart(NamedTuple):
    """One line over the last hour."""

    name: str
    title: str
    total: int
    peak_per_minute: float
    line: str
    """Points of a polyline."""
    area: str
    """Points of the polygon below it."""
    description: str
    """The same in words."""


class TableRow(NamedTuple):
    """Five minutes, or fewer: the oldest begins with the job."""

    time_ms: int
    numbers: tuple[int, ...]


def charts(points: Sequence[FlowPoint], now_ms: int) -> tuple[Chart, ...]:
    """One for each of :data:`NAMES`, all with the same time axis: the hour before ``now_ms``; retries only if any."""
    every = (_chart(name, title, points, now_ms) for name, title in NAMES)
    return tuple(chart for chart in every if chart.total or chart.name != "retried")


def table(points: Sequence[FlowPoint], now_ms: int) -> tuple[TableRow, ...]:
    """The hour in stretches of five minutes, the newest first; none from before the first point."""
    rows = []
    first = points[0].time_ms if points else now_ms
    for end in range(now_ms, max(first, now_ms - _HOUR_MS), -_TABLE_MS):
        inside = [point for point in points if end - _TABLE_MS <= point.time_ms < end]
        numbers = tuple(sum(getattr(point, name) for point in inside) for name, _ in NAMES)
        rows.append(TableRow(max(first, end - _TABLE_MS), numbers))
    return tuple(rows)


def _chart(name: str, title: str, points: Sequence[FlowPoint], now_ms: int) -> Chart:
    hour = [point for point in points if point.time_ms >= now_ms - _HOUR_MS]
    rates = [getattr(point, name) / (_stretch_ms(points) / 60_000) for point in hour]
    total = sum(getattr(point, name) for point in hour)
    peak = max(rates, default=0.0)
    places = [(_x(point.time_ms, now_ms), _y(rate, peak)) for point, rate in zip(hour, rates, strict=True)]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    area = f"{places[0][0]:.1f},{HEIGHT} {line} {places[-1][0]:.1f},{HEIGHT}" if places else ""
    said = f"{number(total)} {_span(hour, now_ms)}"
    if total:
        at = hour[rates.index(peak)].time_ms
        said += f", most at {utc(at)[11:16]} UTC: {number(peak)} a minute; {number(rates[-1])} a minute now"
    return Chart(name, title, total, peak, line, area, f"{said}.")


def _span(hour: Sequence[FlowPoint], now_ms: int) -> str:
    """A job that started lately does not know what the one before it did in this hour."""
    if hour and now_ms - hour[0].time_ms < _HOUR_MS - _stretch_ms(hour):
        return f"since {utc(hour[0].time_ms)[11:16]} UTC"
    return "in the last hour"


def _stretch_ms(points: Sequence[FlowPoint]) -> int:
    """How long one point is."""
    return max(1_000, points[1].time_ms - points[0].time_ms) if len(points) > 1 else 30_000


def _x(time_ms: int, now_ms: int) -> float:
    return min(1.0, max(0.0, 1 - (now_ms - time_ms) / _HOUR_MS)) * WIDTH


def _y(rate: float, peak: float) -> float:
    return HEIGHT - 1 - (rate / peak if peak else 0.0) * (HEIGHT - 1 - _ROOM)
