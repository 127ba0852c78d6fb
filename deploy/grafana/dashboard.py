"""Makes ``checkback.json`` beside it: ``make docs``. A test holds both together."""

import json
from pathlib import Path
from typing import Any

from deploy.grafana.panels import SOURCE, laid_out
from deploy.grafana.rows import ROWS

FILE = Path(__file__).with_name("checkback.json")


def dashboard() -> dict[str, Any]:
    """All of it, as Grafana reads it."""
    return {
        "uid": "checkback",
        "title": "Checkback",
        "description": "Transactional messages for Kafka: whether they flow, which are in doubt, and why.",
        "tags": ["checkback", "kafka"],
        "schemaVersion": 39,
        "version": 1,
        "editable": True,
        "graphTooltip": 1,
        "time": {"from": "now-1h", "to": "now"},
        "refresh": "30s",
        "templating": {"list": _variables()},
        "annotations": {"list": [_alerts()]},
        "links": [_link("Metrics and alerts", "metrics.md"), _link("Operations", "stop-messages.md")],
        "panels": laid_out(ROWS),
    }


def _variables() -> list[dict[str, Any]]:
    groups = '{__name__=~"checkback_(checks_total|open_transactions|parked_messages|check_endpoints)", job=~"$job"}'
    source = {"name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus"}
    return [
        source,
        _variable("job", "Installation", "label_values(checkback_job_info, job)"),
        _variable("group", "Producer group", f"label_values({groups}, group)"),
    ]


def _variable(name: str, label: str, query: str) -> dict[str, Any]:
    return {
        "name": name,
        "label": label,
        "type": "query",
        "datasource": SOURCE,
        "query": {"query": query, "refId": name},
        "refresh": 2,  # whenever the time shown changes
        "sort": 1,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"selected": True, "text": ["All"], "value": ["$__all"]},
    }


def _alerts() -> dict[str, Any]:
    return {
        "name": "Alerts",
        "enable": True,
        "iconColor": "red",
        "datasource": SOURCE,
        "expr": 'ALERTS{alertname=~"Checkback.*", alertstate="firing", job=~"$job"}',
        "titleFormat": "{{alertname}}",
        "tagKeys": "group,topic,partition,instance",
        "step": "60s",
    }


def _link(title: str, page: str) -> dict[str, Any]:
    url = f"https://github.com/checkback/checkback/blob/main/docs/{page}"
    kept = {"targetBlank": True, "keepTime": False, "includeVars": False, "asDropdown": False}
    return {"title": title, "tooltip": "", "type": "link", "url": url, "icon": "doc", "tags": [], **kept}


def written() -> str:
    """The text of ``checkback.json``."""
    return json.dumps(dashboard(), indent=2) + "\n"


if __name__ == "__main__":
    FILE.write_text(written(), encoding="utf-8")
