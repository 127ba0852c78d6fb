"""What the job's registry says, before anything has happened and after a batch."""

import re
import time
from collections import Counter
from pathlib import Path

from prometheus_client import generate_latest

from conf import Settings
from state import Tallies, Tally
from streaming.batch.batch import BatchReport
from streaming.observing.metrics import EVENTS, JobMetrics, tell_limits

SEMANTICS = Path(__file__).parents[3] / "docs" / "semantics.md"


def report(**given: object) -> BatchReport:
    numbers = {"batch": 1, "written": 0, "skipped_partitions": 0, "counts": Counter[str]()}
    return BatchReport(**{**numbers, **given})  # type: ignore[arg-type] # a test's numbers are of any kind


def test_every_event_is_there_before_it_happens() -> None:
    registry = JobMetrics("job").registry
    counts = [registry.get_sample_value("checkback_events_total", {"event": event}) for event in EVENTS]
    assert counts == [0] * len(EVENTS)


def test_events_are_those_that_the_docs_explain() -> None:
    section = SEMANTICS.read_text(encoding="utf-8").split("\n## Counts", 1)[1].split("\n## ", 1)[0]
    rows = [row.split(" | ")[0] for row in section.splitlines() if row.startswith("| `")]
    assert sorted(re.findall(r"`(\w+)`", " ".join(rows))) == sorted(EVENTS)


def test_all_results_of_a_group_are_there_once_it_is() -> None:
    metrics = JobMetrics("job")
    metrics.observe(report(tallies=Tallies({Tally("checked", "shop", 0): 3})))
    for result, count in {"asked": 3, "commit": 0, "rollback": 0, "unknown": 0, "unreachable": 0}.items():
        labels = {"group": "shop", "result": result}
        assert metrics.registry.get_sample_value("checkback_checks_total", labels) == count


def test_a_job_without_a_batch_says_when_it_was_started_and_runs() -> None:
    before = time.time()
    metrics = JobMetrics("job")
    sample = metrics.registry.get_sample_value
    assert sample("checkback_batch_end_timestamp_seconds") is None
    assert before - 1 <= (sample("checkback_start_timestamp_seconds") or 0) <= time.time()
    metrics.running()
    assert before - 1 <= (sample("checkback_running_timestamp_seconds") or 0) <= time.time()


def test_no_label_is_one_that_prometheus_gives_itself() -> None:
    metrics = JobMetrics("job")
    labels = {name for family in metrics.registry.collect() for one in family.samples for name in one.labels}
    assert labels & {"job", "instance"} == set()
    assert metrics.registry.get_sample_value("checkback_job_info", {"name": "job", "version": "0.1.0"}) == 1


def test_counters_are_not_doubled_by_when_they_were_made() -> None:
    metrics = JobMetrics("job")
    metrics.observe(report(counts=Counter({"half": 2}), written=2))
    assert b"_created" not in generate_latest(metrics.registry)


def test_limits_are_those_of_the_settings() -> None:
    registry = JobMetrics("job").registry
    given = {"job": {"driver_memory": "1g"}, "quotas": {"parked": 7}, "transactions": {"age_limit": "1d"}}
    tell_limits(registry, Settings.model_validate(given))
    told = {
        "checkback_quota_open_transactions": 5_000_000,
        "checkback_quota_open_bytes": 64 << 30,
        "checkback_quota_delayed_messages": 5_000_000,
        "checkback_quota_parked_messages": 7,
        "checkback_age_limit_seconds": 86_400,
        "checkback_driver_memory_bytes": 1 << 30,
    }
    assert {name: registry.get_sample_value(name) for name in told} == told
