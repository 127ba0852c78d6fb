"""A thousand groups and topics do not make a thousand times as many series."""

from collections import Counter

from prometheus_client import CollectorRegistry, generate_latest

from checkers.facts import EndpointStanding, GroupStanding
from checkers.metrics import CheckMetrics
from state import Tallies, Tally
from streaming.batch.batch import BatchReport
from streaming.observing.metrics import JobMetrics, KeptNow, OpenNow
from tests.deploy.prometheus import DEPLOY

GROUPS = [f"group-{number}" for number in range(1_000)]
MOST_SAMPLES = 15_000


def samples(registry: CollectorRegistry) -> int:
    return sum(not line.startswith(b"#") for line in generate_latest(registry).splitlines())


def test_a_thousand_groups_with_topics_of_their_own_are_bounded() -> None:
    metrics = JobMetrics("job")
    standing = {name: GroupStanding(1, 1, (EndpointStanding(name, "well", 1.0, ""),)) for name in GROUPS}
    checks = CheckMetrics(metrics.registry, lambda: standing)
    for turn in range(3):
        tallies = Tallies({Tally("checked", name, 0): 1 for name in GROUPS})
        reasons = Counter({("rejected", f"topic '{name}' is {turn} times as it should be"): 1 for name in GROUPS})
        metrics.observe(BatchReport(turn, 0, 0, Counter(), reasons=reasons, tallies=tallies))
        open_now = [OpenNow(name, f"topic-{turn}-{name}", 1, 1.0) for name in GROUPS]
        metrics.stands(open_now[turn:] + open_now[:turn], [KeptNow(name, 1, 1, 1) for name in GROUPS])
        for name in GROUPS:
            checks.answered(name, "commit")
            checks.asked(name, 0.1)
            checks.postponed(name)
    labels = {
        one.labels["group"] for family in metrics.registry.collect() for one in family.samples if "group" in one.labels
    }
    assert len(labels) < 300
    assert "other" in labels
    assert samples(metrics.registry) < MOST_SAMPLES
    assert f"sample_limit: {2 * MOST_SAMPLES}" in (DEPLOY / "prometheus" / "prometheus.yml").read_text(encoding="utf-8")
