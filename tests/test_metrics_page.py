"""docs/metrics.md says what the registries and the alerts say, and leads to places that are there."""

import re
from pathlib import Path
from typing import Any

import pytest
import typer
from ruamel.yaml import YAML

from checkback_cli import app
from deploy.grafana.rows import ROWS
from docs import metrics

ROOT = Path(__file__).parents[1]
RULES = YAML(typ="safe").load(metrics.ALERTS.read_text(encoding="utf-8"))


def test_the_generated_parts_are_those_of_the_code() -> None:
    page = metrics.PAGE.read_text(encoding="utf-8")
    assert page == metrics.written(page), "run make docs"


def test_a_metric_that_nobody_advises_on_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    fewer = {name: section for name, section in metrics.ADVICE.items() if name != "limits"}
    monkeypatch.setattr(metrics, "ADVICE", fewer)
    with pytest.raises(ValueError, match="checkback_age_limit_seconds"):
        metrics.written(metrics.PAGE.read_text(encoding="utf-8"))


def test_names_follow_the_conventions() -> None:
    for one in metrics.metrics():
        assert re.fullmatch(r"checkback_[a-z_]+", one.name), one
        assert one.name.endswith("_total") == (one.type == "counter"), one
        assert re.search(r"_(ms|millis|minutes|kb|mb)(_|$)", one.name) is None, one
        assert one.type != "histogram" or one.unit == "s", one
        assert one.said[0].isupper() or one.said[0].isdigit(), one
        assert not one.said.endswith("."), one


def test_alerts_and_page_lead_somewhere() -> None:
    links = [rule["annotations"]["runbook_url"] for group in RULES["groups"] for rule in group["rules"]]
    links += re.findall(r"\]\(([a-z]+\.md[^)]*)\)", metrics.PAGE.read_text(encoding="utf-8"))
    assert len(links) > 15
    for link in links:
        file, _, anchor = link.rpartition("/docs/")[2].partition("#")
        headings = re.findall(r"^#+ (.*)$", (ROOT / "docs" / file).read_text(encoding="utf-8"), re.MULTILINE)
        anchors = {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}
        assert not anchor or anchor in anchors, link


def test_commands_that_are_named_are_commands() -> None:
    texts = [metrics.PAGE.read_text(encoding="utf-8")]
    texts += [str(rule["annotations"]) for group in RULES["groups"] for rule in group["rules"]]
    texts += [panel.description for row in ROWS.values() for panel in row]
    named = {
        found
        for text in texts
        for found in re.findall(r"\bcheckback ([a-z]+)(?: (list|resume|redeliver|commit|rollback))?", text)
    }
    known: Any = typer.main.get_command(app).commands  # type: ignore[attr-defined] # it is a group
    assert len(named) > 8
    for command, below in named:
        assert command in known, command
        assert not below or below in getattr(known[command], "commands", {below}), (command, below)


def test_every_alert_says_how_bad_it_is_and_what_to_do() -> None:
    for rule in (rule for group in RULES["groups"] for rule in group["rules"]):
        assert rule["labels"]["severity"] in {"critical", "warning"}, rule
        assert set(rule["annotations"]) == {"summary", "description", "runbook_url"}, rule
        assert len(rule["annotations"]["summary"]) < 120, rule
