"""What ``deploy/prometheus/`` holds, by Prometheus's own tool; and what a scrape of the real registries looks like."""

import pytest
from prometheus_client import generate_latest

from tests.deploy.causes import BUSY, CAUSES
from tests.deploy.installation import Installation
from tests.deploy.prometheus import promtool


def test_the_configuration_is_one() -> None:
    assert "SUCCESS: 1 rule files found" in promtool("check", "config", "prometheus.yml")


def test_the_rules_have_nothing_to_be_blamed_for() -> None:
    promtool("check", "rules", "--lint=all", "--lint-fatal", "alerts.yml")


def test_each_alert_fires_at_its_time_and_is_silent_in_the_demo() -> None:
    promtool("test", "rules", "alerts_test.yml")


def scraped() -> bytes:
    made = Installation("checkback", CAUSES[BUSY][0])
    made.batch()
    return generate_latest(made.registry)


def test_metrics_follow_the_conventions() -> None:
    assert promtool("check", "metrics", given=scraped()) == ""


@pytest.mark.parametrize(
    ("right", "wrong", "said"),
    [(b"checkback_delivery_seconds", b"checkback_delivery_ms", "ms"), (b"_events_total", b"_events", "_total")],
)
def test_the_tool_would_say_if_they_did_not(right: bytes, wrong: bytes, said: str) -> None:
    with pytest.raises(AssertionError, match=said):
        promtool("check", "metrics", given=scraped().replace(right, wrong))
