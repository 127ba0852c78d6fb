"""The dashboard: made by its script, whole, and with queries that a real Prometheus answers."""

import re
from itertools import combinations
from typing import Any

import pytest

from deploy.grafana import dashboard
from tests.deploy.causes import BUSY
from tests.deploy.prometheus import Prometheus
from tests.place import wait_until

NOT_DEPRECATED = {"timeseries", "stat", "bargauge", "table", "row"}
PANELS: list[dict[str, Any]] = dashboard.dashboard()["panels"]


def test_it_is_what_its_script_makes() -> None:
    assert dashboard.FILE.read_text(encoding="utf-8") == dashboard.written(), "run make docs"


def test_panels_are_told_apart_and_explained() -> None:
    assert len({panel["id"] for panel in PANELS}) == len(PANELS)
    drawn = [panel for panel in PANELS if panel["type"] != "row"]
    assert len({panel["title"] for panel in drawn}) == len(drawn)
    for panel in drawn:
        assert panel["type"] in NOT_DEPRECATED, panel["title"]
        assert panel["description"].endswith("."), panel["title"]
        assert panel["fieldConfig"]["defaults"]["unit"], panel["title"]
        assert panel["targets"], panel["title"]


def test_panels_do_not_overlap() -> None:
    places = [panel["gridPos"] for panel in PANELS]
    assert all(place["x"] + place["w"] <= 24 for place in places)
    for one, other in combinations(places, 2):
        beside = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        below = one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
        assert beside or below, (one, other)


def queries() -> dict[str, str]:
    found = {f"{panel['title']} {one['refId']}": one["expr"] for panel in PANELS for one in panel.get("targets", ())}
    return found | {one["name"]: one["expr"] for one in dashboard.dashboard()["annotations"]["list"]}


QUERIES = queries()
"""All of the dashboard, by panel and letter."""


@pytest.mark.parametrize("expression", QUERIES.values(), ids=QUERIES)
def test_a_query_brings_data(expression: str, installations: Prometheus) -> None:
    asked = filled_in(expression, BUSY)
    wait_until(lambda: has_data(installations, asked), asked)


@pytest.mark.parametrize(
    "variable", [one for one in dashboard.dashboard()["templating"]["list"] if one["type"] == "query"]
)
def test_a_variable_has_values(variable: dict[str, Any], installations: Prometheus) -> None:
    found = re.fullmatch(r"label_values\((.*), (\w+)\)", variable["query"]["query"])
    assert found
    wait_until(lambda: has_data(installations, f"count by ({found[2]}) ({filled_in(found[1], BUSY)})"), found[0])


def filled_in(expression: str, job: str) -> str:
    """As Grafana would ask it, for what a Prometheus of tests has seen."""
    values = {"$job": job, "$group": ".*", "$__rate_interval": "5m", "$__range": "5m"}
    for name, value in values.items():
        expression = expression.replace(name, value)
    assert "$" not in expression
    return expression


def has_data(prometheus: Prometheus, expression: str) -> bool:
    found = prometheus.query(expression)
    return bool(found) and any(one["value"][1] != "NaN" for one in found)
