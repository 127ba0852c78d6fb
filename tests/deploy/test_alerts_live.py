"""The alerts in a real Prometheus, with their times shortened: each fires when its cause is made to happen, and none
for the demo. ``deploy/prometheus/alerts_test.yml`` has their true times.
"""

from tests.deploy.causes import CAUSES, DEMO, DOWN
from tests.deploy.prometheus import Prometheus
from tests.place import wait_until


def test_each_alert_fires_for_its_cause_and_for_nothing_else(installations: Prometheus) -> None:
    wanted = {(name, alert) for name, (_, alerts) in CAUSES.items() for alert in alerts}
    wanted |= {(name, alert) for name, (_, alert) in DOWN.items()}
    assert {alert for _, alert in wanted} == set(installations.expressions()), "an alert without a cause"
    wait_until(lambda: installations.firing() >= wanted, "all alerts")
    assert installations.firing() == wanted


def test_none_is_even_near_for_the_demo(installations: Prometheus) -> None:
    wait_until(lambda: len(installations.query("checkback_batch > 20")) >= len(CAUSES))
    assert [one for one in installations.alerts() if one["labels"]["job"] == DEMO] == []


def test_what_alerts_say_is_whole(installations: Prometheus) -> None:
    wait_until(lambda: len(installations.firing()) >= len(CAUSES), "most alerts")
    for one in installations.alerts():
        said = " ".join(one["annotations"].values())
        assert "{{" not in said, one
        assert "<no value>" not in said, one
        assert "error expanding" not in said, one
