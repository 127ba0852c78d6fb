"""Panels of a dashboard, and how Grafana writes them down."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from string import ascii_uppercase
from typing import Any

_COLUMNS = 24
SOURCE = {"type": "prometheus", "uid": "${datasource}"}
OF_JOB = 'job=~"$job"'
OF_GROUP = 'job=~"$job", group=~"$group"'


@dataclass(frozen=True)
class Query:
    """One line of a panel, or several: ``legend`` names each by its labels."""

    expression: str
    legend: str


@dataclass(frozen=True)
class Panel:
    """What is drawn, and what it means to whoever looks at it."""

    title: str
    description: str
    unit: str
    """Of Grafana's units: ``s``, ``bytes``, ``short``, ``cps`` (counts per second), ``reqps``."""
    queries: tuple[Query, ...]
    kind: str = "timeseries"
    width: int = 8
    height: int = 8
    stacked: bool = False
    steps: tuple[tuple[float | None, str], ...] = ()
    """From which value on a stat has which colour."""
    renamed: dict[str, str] = field(default_factory=dict)
    """Of a table: headings of its columns, by label or by ``Value #`` and the letter of the query."""


def rate(metric: str, labels: str = OF_JOB, by: str = "") -> str:
    """Counts per second."""
    return f"{_sum(by)} (rate({metric}{{{labels}}}[$__rate_interval]))"


def gauge(metric: str, labels: str = OF_GROUP, by: str = "group") -> str:
    """How it stands."""
    return f"{_sum(by)} ({metric}{{{labels}}})"


def quantiles(metric: str) -> tuple[Query, ...]:
    """How long most, nearly all and all but a few take."""
    return tuple(
        Query(f"histogram_quantile({share}, {rate(f'{metric}_bucket', by='le')})", said)
        for share, said in ((0.5, "half of them"), (0.95, "95 %"), (0.99, "99 %"))
    )


def _sum(by: str) -> str:
    return f"sum by ({by})" if by else "sum"


def laid_out(rows: Mapping[str, tuple[Panel, ...]]) -> list[dict[str, Any]]:
    """The panels as Grafana wants them: below the title of their row, from left to right, each with a number."""
    found: list[dict[str, Any]] = []
    top = 0
    for title, panels in rows.items():
        place = {"x": 0, "y": top, "w": _COLUMNS, "h": 1}
        found.append(
            {"id": len(found) + 1, "type": "row", "title": title, "collapsed": False, "panels": [], "gridPos": place}
        )
        top += 1
        for x, y, panel in _places(panels):
            place = {"x": x, "y": top + y, "w": panel.width, "h": panel.height}
            found.append({"id": len(found) + 1, **_as_json(panel), "gridPos": place})
        top = max(one["gridPos"]["y"] + one["gridPos"]["h"] for one in found)
    return found


def _places(panels: tuple[Panel, ...]) -> Iterator[tuple[int, int, Panel]]:
    x = y = height = 0
    for panel in panels:
        if x + panel.width > _COLUMNS:
            x, y, height = 0, y + height, 0
        yield x, y, panel
        x, height = x + panel.width, max(height, panel.height)


def _as_json(panel: Panel) -> dict[str, Any]:
    options, defaults = _KINDS[panel.kind](panel)
    made = {
        "type": panel.kind,
        "title": panel.title,
        "description": panel.description,
        "datasource": SOURCE,
        "targets": [
            _target(panel, letter, query) for letter, query in zip(ascii_uppercase, panel.queries, strict=False)
        ],
        "fieldConfig": {"defaults": {"unit": panel.unit, **defaults}, "overrides": _overrides(panel)},
        "options": options,
    }
    if panel.renamed:
        made["transformations"] = _table_of(panel)
    return made


def _target(panel: Panel, letter: str, query: Query) -> dict[str, Any]:
    now = panel.kind in {"table", "bargauge"}
    return {
        "refId": letter,
        "datasource": SOURCE,
        "expr": query.expression,
        "legendFormat": query.legend,
        "editorMode": "code",
        "format": "table" if panel.kind == "table" else "time_series",
        "instant": now,
        "range": not now,
    }


def _timeseries(panel: Panel) -> tuple[dict[str, Any], dict[str, Any]]:
    options = {
        "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True, "calcs": []},
        "tooltip": {"mode": "multi", "sort": "desc"},
    }
    drawn = {
        "drawStyle": "line",
        "lineWidth": 1,
        "fillOpacity": 40 if panel.stacked else 8,
        "showPoints": "never",
        "stacking": {"mode": "normal" if panel.stacked else "none", "group": "A"},
    }
    return options, {"min": 0, "custom": drawn}


def _stat(panel: Panel) -> tuple[dict[str, Any], dict[str, Any]]:
    options = {
        **_LAST,
        "colorMode": "value",
        "graphMode": "area",
        "textMode": "value",
        "justifyMode": "auto",
        "orientation": "auto",
        "wideLayout": True,
        "showPercentChange": False,
        "percentChangeColorMode": "standard",
    }
    steps = [{"value": value, "color": colour} for value, colour in panel.steps]
    return options, {"thresholds": {"mode": "absolute", "steps": steps}, "noValue": "-"}


def _bar_gauge(_: Panel) -> tuple[dict[str, Any], dict[str, Any]]:
    options = {
        **_LAST,
        "orientation": "horizontal",
        "displayMode": "basic",
        "valueMode": "color",
        "showUnfilled": True,
        "namePlacement": "auto",
        "sizing": "auto",
        "minVizWidth": 8,
        "minVizHeight": 16,
        "maxVizHeight": 300,
        "legend": {"displayMode": "list", "placement": "bottom", "showLegend": False, "calcs": []},
    }
    thresholds = {"mode": "absolute", "steps": [{"value": None, "color": "orange"}]}
    return options, {"min": 0, "decimals": 0, "thresholds": thresholds, "noValue": "nothing"}


def _table(_: Panel) -> tuple[dict[str, Any], dict[str, Any]]:
    return {"showHeader": True, "cellHeight": "sm", "frameIndex": 0}, {}


def _overrides(panel: Panel) -> list[dict[str, Any]]:
    """Columns of tables that have a unit of their own."""
    units = {"Oldest": "s", "Bytes open": "bytes"}
    return [
        {"matcher": {"id": "byName", "options": name}, "properties": [{"id": "unit", "value": units[name]}]}
        for name in panel.renamed.values()
        if name in units
    ]


def _table_of(panel: Panel) -> list[dict[str, Any]]:
    """One row for all queries, with the columns that are named and no others."""
    values = {f"Value #{letter}" for letter in ascii_uppercase[: len(panel.queries)]}
    left_out = dict.fromkeys([*sorted(values - panel.renamed.keys()), "Time"], True)
    order = {name: number for number, name in enumerate(panel.renamed)}
    return [
        {"id": "merge", "options": {}},
        {
            "id": "organize",
            "options": {"renameByName": panel.renamed, "excludeByName": left_out, "indexByName": order},
        },
    ]


_LAST = {"reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False}}
_KINDS = {"timeseries": _timeseries, "stat": _stat, "bargauge": _bar_gauge, "table": _table}
