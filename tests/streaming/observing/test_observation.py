"""What people see of a job: gathered from made-up batches."""

import math
import time
from collections import Counter
from typing import Any

import numpy as np
import pytest

from checkback.operations.topics import few_ops
from checkback.wire.checks import Announcement
from checkback.wire.protocol import UNDELIVERABLE
from checkers.directory import EndpointDirectory, group_standing
from conf import Settings
from state import REST, SUM, WAIT_EDGES_MS, Collector, OpenOf, Tally, Usage
from status_page.facts import EndpointFacts, GroupFacts, HeldBackPartition, JobFacts, PartitionBacklog
from streaming.batch.batch import BatchReport, HeldUntil, counts_to_json, open_by_segment, open_to_json, summed_counts
from streaming.fairness.fairness import KnownUsage
from streaming.fairness.held_back import PartitionEnds, PartitionId
from streaming.observing.figures import STRETCH_MS, STRETCHES, Flow, JobBacklog, OpenTransactions
from streaming.observing.labels import OTHER, Labels, kind_of
from streaming.observing.metrics import JobMetrics, KeptNow, OpenNow
from streaming.observing.observation import Observation, notes_of
from streaming.observing.progress import batch_progress
from streaming.ownership.claim import Owner

ONE, TWO = (0, 0), (0, 4096)
ORDERS = ("shop", "orders")
SKIPPED = EndpointFacts("http://a", "skipped", 1.0, "refused")


def progress(**changed: Any) -> dict[str, Any]:
    """As Spark says it, of batch 7."""
    offsets = {"endOffset": '{"cb.half":{"0":20,"1":5},"cb.op":{"0":5,"1":0}}'}
    offsets["latestOffset"] = '{"cb.half":{"0":50,"1":5},"cb.op":{"0":5,"1":0}}'
    rate = {"description": "RateStream", "numInputRows": 1, "endOffset": 12, "latestOffset": 12}
    return {
        "batchId": 7,
        "timestamp": "2026-11-23T09:30:00.250Z",
        "durationMs": {"addBatch": 400, "walCommit": 20, "triggerExecution": 500},
        "sources": [{"description": "KafkaV2", "numInputRows": 30, **offsets}, rate],
        "stateOperators": [{"numRowsTotal": 3, "numRowsDroppedByWatermark": 0}],
        **changed,
    }


def test_what_spark_says_of_a_batch() -> None:
    found = batch_progress(progress())
    assert (found.facts.number, found.facts.seconds, found.facts.records) == (7, 0.5, 30)
    assert found.facts.records_per_second == pytest.approx(60)
    assert found.facts.ended_ms == 1795426200750
    assert found.facts.phases == {"write offsets": 0.02, "evaluate and write": 0.4}
    assert found.read_to[("cb.half", 0)] == 20
    assert found.segments == 3


def test_a_wait_at_the_end_of_a_batch_is_no_work() -> None:
    waited = progress(durationMs={"addBatch": 4_400, "walCommit": 20, "triggerExecution": 4_500})
    assert batch_progress(waited, waited_ms=4_000).facts == batch_progress(progress()).facts


def test_what_is_open_is_of_the_last_batch_that_said_so() -> None:
    open_now = OpenTransactions()
    open_now.changed(0, {ONE: {ORDERS: OpenOf(3, 100)}, TWO: {ORDERS: OpenOf(2, 50)}})
    assert open_now.counted, "what the first batch of a checkpoint says is all there is"
    assert open_now.by_topic() == {ORDERS: OpenOf(5, 50)}
    open_now.changed(1, {TWO: {}})
    assert open_now.by_topic() == {ORDERS: OpenOf(3, 100)}


def test_a_count_of_the_state_changes_nothing_that_batches_have_said_since() -> None:
    open_now = OpenTransactions()
    open_now.changed(9, {ONE: {ORDERS: OpenOf(1, 300)}, TWO: {}})
    assert not open_now.counted
    open_now.begin_with({ONE: {ORDERS: OpenOf(7, 1)}, TWO: {ORDERS: OpenOf(7, 1)}, (1, 0): {ORDERS: OpenOf(2, 40)}})
    assert open_now.counted
    assert open_now.by_topic() == {ORDERS: OpenOf(3, 40)}


def test_flow_is_of_the_last_hour() -> None:
    flow = Flow()
    flow.add(10 * STRETCH_MS, {"half": 1})
    flow.add((9 + STRETCHES) * STRETCH_MS, {"half": 2, "committed": 1, "read": 9})
    points = flow.points((9 + STRETCHES) * STRETCH_MS)
    assert [(point.half, point.committed) for point in points if point.half] == [(1, 0), (2, 1)]
    assert [point.half for point in flow.points((10 + STRETCHES) * STRETCH_MS) if point.half] == [2]
    assert len(points) == STRETCHES


def test_what_takes_long_is_measured_in_whole_and_in_sizes() -> None:
    made = Collector()
    made.measured("delivery", np.array([0, 40, 4_000, -5]))
    tallies: Counter[Tally] = made._tallies
    assert sum(number for tally, number in tallies.items() if tally.size != SUM) == 4
    assert tallies[Tally("delivery_ms", "", SUM)] == 4_040
    metrics = JobMetrics("job")
    metrics.observe(BatchReport(0, 4, 0, Counter(), tallies=tallies, seconds=0.5))
    sample = metrics.registry.get_sample_value
    assert sample("checkback_delivery_seconds_count") == 4
    assert sample("checkback_delivery_seconds_sum") == pytest.approx(4.04 + 4 * 0.5)
    assert sample("checkback_delivery_seconds_bucket", {"le": "0.5"}) == 0
    assert sample("checkback_delivery_seconds_bucket", {"le": "1"}) == 3


@pytest.mark.parametrize("wait_ms", [1, 7, 999, 60_000, 86_400_000])
def test_a_size_is_a_fifth_too_large_at_most(wait_ms: int) -> None:
    edge = int(WAIT_EDGES_MS[np.searchsorted(WAIT_EDGES_MS, wait_ms)])
    assert wait_ms <= edge <= math.ceil(wait_ms * 1.2)


def test_checks_are_counted_by_group_and_result_and_groups_are_bounded() -> None:
    metrics = JobMetrics("job")
    tallies = Counter({Tally("checked", f"group-{number}", SUM): 1 for number in range(1_000)})
    tallies[Tally("check_unreachable", "group-0", SUM)] = 2
    metrics.observe(BatchReport(0, 0, 0, Counter(check_unreachable=2), tallies=tallies))
    sample = metrics.registry.get_sample_value
    assert sample("checkback_checks_total", {"group": "group-0", "result": "unreachable"}) == 2
    assert sample("checkback_checks_total", {"group": OTHER, "result": "asked"}) == 800
    assert sample("checkback_check_attempts_given_back_total") == 2


def test_what_is_open_no_more_is_zero_and_the_rest_is_other() -> None:
    metrics = JobMetrics("job")
    metrics.stands([OpenNow("shop", "orders", 5, 9.0)], [KeptNow("shop", 100, 1, 2)])
    assert metrics.registry.get_sample_value("checkback_parked_messages", {"group": "shop"}) == 2
    metrics.stands([OpenNow(f"g{number}", "t", 1, 3.0) for number in range(300)], [])
    sample = metrics.registry.get_sample_value
    assert sample("checkback_open_transactions", {"group": "shop", "topic": "orders"}) == 0
    assert sample("checkback_open_transactions", {"group": OTHER, "topic": OTHER}) == 100
    assert sample("checkback_parked_messages", {"group": "shop"}) is None


@pytest.mark.parametrize(
    ("reason", "kind"),
    [
        (f"{UNDELIVERABLE} orders: no such topic", f"{UNDELIVERABLE} topic: no such topic"),
        ("group shop has 7 of quotas.open = 5; it is let in again", "group over quotas.open"),
        ("its cb-deliver-at is more than transactions.delay_max (7) ahead", None),
    ],
)
def test_reasons_are_of_few_kinds(reason: str, kind: str | None) -> None:
    assert kind is None or kind_of(reason) == kind
    assert kind_of(reason) == kind_of(reason.replace("7", "123,456"))


def test_what_the_access_policy_refuses_is_seen_by_group_and_topic() -> None:
    seen = Observation(Settings())
    why = "group shop may not send to payroll: no account names that group"
    assert kind_of(why) == "not allowed by the access policy"
    seen.batch(BatchReport(1, 0, 0, Counter(), refused=Counter({("shop", "payroll", why): 2, ("till", "x", why): 1})))
    seen.batch(BatchReport(2, 0, 0, Counter(), refused=Counter({("shop", "payroll", why): 3})))
    counts = [(one.group, one.topic, one.number) for one in seen.facts().refused]
    assert counts == [("shop", "payroll", 5), ("till", "x", 1)]
    made_up = Counter({(f"g{number}", "t", why): 1 for number in range(500)})
    seen.batch(BatchReport(3, 0, 0, Counter(), refused=made_up))
    sample = seen.metrics.registry.get_sample_value
    assert sample("checkback_refused_total", {"group": "shop", "topic": "payroll"}) == 5
    assert sample("checkback_refused_total", {"group": OTHER, "topic": OTHER}) == 302
    assert len(seen.facts().refused) == 20


def test_a_policy_file_that_cannot_be_used_is_loud() -> None:
    seen = Observation(Settings())
    seen.metrics.registry.collect()
    assert not seen.facts().notes
    seen.policy_wrong = lambda: "access.policy: access.toml: It is not TOML."
    families = {family.name: family for family in seen.metrics.registry.collect()}
    assert [one.value for one in families["checkback_access_policy_wrong"].samples] == [1.0]
    (note,) = seen.facts().notes
    assert note == "The access policy that was read before stays in force: access.policy: access.toml: It is not TOML."


def test_half_partitions_without_a_place_for_their_ops_are_loud() -> None:
    seen = Observation(Settings())
    seen.few_ops = lambda: few_ops("cb.half", "cb.op", 5, 2)
    (note,) = seen.facts().notes
    assert note.startswith("Some transactions cannot be ended: cb.half has 5 partitions and cb.op 2:")


def test_labels_are_bounded() -> None:
    labels = Labels(2)
    assert [labels.of(name) for name in ("a", "b", "c", "a")] == ["a", "b", OTHER, "a"]


def test_what_tasks_tell_the_driver_arrives_as_it_was() -> None:
    tallies = Counter({Tally("checked", "shop", SUM): 3, Tally("delivery", "", 17): 2})
    assert summed_counts(Tally, [counts_to_json(tallies)] * 2) == tallies + tallies
    still_open = {ONE: {ORDERS: OpenOf(3, 100), ("", ""): OpenOf(1, 5)}, TWO: {}}
    assert open_by_segment([open_to_json(still_open)]) == still_open


def test_the_facts_of_a_job() -> None:
    observation = Observation(Settings())
    observation.batch(BatchReport(0, 3, 0, Counter(half=4, committed=3), still_open={ONE: {ORDERS: OpenOf(1, 100)}}))
    assert observation.progress(progress()) is not None
    assert observation.progress(progress()) is None, "it was said before"
    facts = observation.facts()
    assert facts.batch is not None
    assert (facts.batch.number, facts.counted, len(facts.batches)) == (7, True, 1)
    (group,) = facts.groups
    assert (group.group, group.open, group.oldest_ms) == ("shop", 1, 100)
    assert facts.flow[-1].committed == 3
    labels = dict(zip(("group", "topic"), ORDERS, strict=True))
    assert observation.metrics.registry.get_sample_value("checkback_open_transactions", labels) == 1


def test_before_the_first_batch_nothing_is_said_that_rests_on_it() -> None:
    observation = Observation(Settings())
    step = observation.start_up.step
    step("start Java and Spark")
    facts = observation.facts()
    assert (facts.running_ms, facts.backlog, facts.flow, facts.batch) == (None, None, (), None)
    assert [one.name for one in facts.steps] == ["start Java and Spark"]
    assert facts.notes == (), "a start as it should be"
    sample = observation.metrics.registry.get_sample_value
    for name in ("batch", "batch_end_timestamp_seconds", "running_timestamp_seconds", "state_bytes", "state_segments"):
        assert sample(f"checkback_{name}") is None
    later = {PartitionId("cb.later", 0): PartitionEnds(9, 9)}
    observation.looked({PartitionId("cb.half", 0): PartitionEnds(20_050, 20_050, 10), **later})
    assert observation.facts().backlog is None, "where the query stands is not known"
    observation.read_to({("cb.half", 0): 50})
    assert observation.facts().backlog == (PartitionBacklog("cb.half", 0, 20_000),)
    assert sample("checkback_backlog_records", {"topic": "cb.half", "partition": "0"}) == 20_000
    step("evaluate and write the first batch")
    (first, second) = observation.facts().steps
    assert (first.seconds is None, second.seconds) == (False, None)


def test_after_a_restart_what_is_open_is_not_known_until_it_is_counted() -> None:
    observation = Observation(Settings())
    observation.batch(BatchReport(7, 3, 0, Counter(half=4), still_open={ONE: {ORDERS: OpenOf(1, 100)}}))
    (group,) = observation.facts().groups
    assert (group.open, group.delayed, group.parked, group.oldest_ms) == (None, None, None, None)
    labels = dict(zip(("group", "topic"), ORDERS, strict=True))
    sample = observation.metrics.registry.get_sample_value
    assert sample("checkback_open_transactions", labels) is None
    observation.counted({ONE: {ORDERS: OpenOf(1, 100)}, TWO: {ORDERS: OpenOf(2, 50)}})
    assert observation.facts().groups[0].open == 3
    assert sample("checkback_open_transactions", labels) == 3


def test_what_is_held_is_said_until_it_is_delivered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streaming.observing.observation.wall_ms", lambda: 100_000)
    observation = Observation(Settings())

    def batch(number: int, *changes: tuple[HeldUntil, int]) -> list[tuple[str, int, str, int]]:
        held: Counter[tuple[str, int, str]] = summed_counts(HeldUntil, [counts_to_json(dict(changes))])
        observation.batch(BatchReport(number, 1, 0, Counter(), held=held))
        return [(one.topic, one.number, one.reason, one.next_ms) for one in observation.facts().held]

    first = batch(1, (HeldUntil("late", 105, "missing"), 3), (HeldUntil("away", 105, "no leader"), 1))
    assert first == [("late", 3, "missing", 105_000), ("away", 1, "no leader", 105_000)]
    more = batch(2, (HeldUntil("late", 110, "missing"), 2))
    assert more == [("late", 5, "missing", 105_000), ("away", 1, "no leader", 105_000)]
    again = batch(3, (HeldUntil("late", 105), -3), (HeldUntil("away", 105), -1), (HeldUntil("late", 115, "narrow"), 1))
    assert again == [("late", 3, "narrow", 110_000)], "two of them were delivered, and that of the other topic"
    unknown = batch(4, (HeldUntil("late", 90), -7), (HeldUntil("late", 120, "narrow"), 1))
    assert unknown == [("late", 4, "narrow", 110_000)], "from before the start"
    monkeypatch.setattr("streaming.observing.observation.wall_ms", lambda: 800_000)
    assert batch(5) == []


def test_who_holds_a_partition_back_is_said_as_long_as_it_is() -> None:
    observation, place = Observation(Settings()), PartitionId("cb.op", 3)
    observation.held_back(place, 15.0)
    observation.held_back_by(place, "producer 7")
    assert observation.facts().held_back == (HeldBackPartition("cb.op", 3, 15.0, "producer 7"),)
    observation.held_back(place, 0.0)
    observation.held_back(place, 5.0)
    assert observation.facts().held_back == (HeldBackPartition("cb.op", 3, 5.0),)


def test_a_backlog_is_what_kafka_has_and_the_query_has_not() -> None:
    backlog = JobBacklog(["cb.half"])
    backlog.looked({PartitionId("cb.half", 0): PartitionEnds(5, 9, 3)}, 10.0)
    backlog.read_to({})
    assert backlog.now(11.0) == (PartitionBacklog("cb.half", 0, 6),), "a new checkpoint begins where the topic does"
    backlog.read_to({("cb.half", 0): 12})
    assert backlog.now(11.0) == (PartitionBacklog("cb.half", 0, 0),), "Kafka's end was looked at before that"
    assert backlog.now(20.5) is None, "nobody has looked for long"


def facts(**changed: Any) -> JobFacts:
    names = ("job", "version", "run", "host", "kafka", "topic_prefix", "checkpoint")
    times = {"started_ms": 0, "running_ms": 500, "now_ms": 1_000}
    given: dict[str, Any] = {**dict.fromkeys(names, "x"), **times, **changed}
    if "now_ms" in changed and "running_ms" not in changed:
        given["running_ms"] = None
    return JobFacts(**given)


@pytest.mark.parametrize(
    ("changed", "note"),
    [
        (
            {"now_ms": 200_000, "running_ms": 139_000},
            "The first batch has not ended for 61 s: messages wait. 'checkback doctor'",
        ),
        ({"now_ms": 600_000}, "The job is starting, for 600 s: nothing is taken in yet."),
        ({"held_back": (HeldBackPartition("cb.op", 3, 40.0),)}, "Partition 3 of cb.op has been held back by an open"),
        ({"backlog": (PartitionBacklog("cb.half", 0, 123_456),)}, "The job is 123,456 records behind"),
        ({"groups": (GroupFacts("shop", open=7, waiting=1),)}, "No check endpoint of group shop answers"),
        ({"groups": (GroupFacts("shop", waiting=1, endpoints=(SKIPPED,)),)}, "(refused)"),
        ({"groups": (GroupFacts("shop", barred="group shop has too much"),)}, "New half messages are rejected: group"),
    ],
)
def test_what_to_read_first(changed: dict[str, Any], note: str) -> None:
    assert note in " ".join(notes_of(facts(**changed)).notes)


def test_a_start_as_it_should_be_is_nothing_to_be_red_about() -> None:
    assert notes_of(facts(now_ms=599_000)).notes == ()


def test_nothing_is_said_where_all_is_well() -> None:
    well = (EndpointFacts("http://a", "well"), SKIPPED)
    assert not notes_of(facts(groups=(GroupFacts("shop", open=3, waiting=2, endpoints=well),))).notes


def started(standing: KnownUsage, still_open: dict[tuple[int, int], dict[tuple[str, str], OpenOf]]) -> Observation:
    """With what is known by its first batch."""
    observation = Observation(Settings())
    observation.of(Owner("query", "job"), lambda: standing, None)
    observation.batch(BatchReport(0, 3, 0, Counter(), still_open=still_open))
    assert observation.progress(progress()) is not None
    return observation


def test_what_is_open_is_known_of_each_group_also_where_a_segment_has_too_many_to_tell_apart() -> None:
    """There the rest is put together, under no group: it was a group without a name, and the others had 0 open."""
    still_open = {ONE: {ORDERS: OpenOf(3, 100), REST: OpenOf(3, 5)}}
    usages = {"shop": Usage(open=4), "one": Usage(open=1), "other": Usage(open=1), "none": Usage(parked=1)}
    groups = {one.group: one for one in started(KnownUsage(usages, 0, {}), still_open).facts().groups}
    assert {name: one.open for name, one in groups.items()} == {"shop": 4, "one": 1, "other": 1, "none": 0}
    assert {one.oldest_ms for one in groups.values()} == {None}, "of some of them it is not known"


@pytest.mark.parametrize(("delayed", "known"), [(0, True), (1, False), (None, False)])
def test_whether_messages_are_held_from_before_the_start_is_known_when_none_is_delayed(
    delayed: int | None,
    known: bool,  # noqa: FBT001  (a case)
) -> None:
    usages = None if delayed is None else {"shop": Usage(delayed=delayed)}
    assert started(KnownUsage(usages, 0, {}), {}).facts().held_known is known


def test_how_much_the_next_batch_reads_is_a_fact() -> None:
    assert started(KnownUsage(None, None, {}, 4_000), {}).facts().batch_limit == 4_000


def test_after_ten_minutes_each_held_message_was_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    observation = started(KnownUsage({"shop": Usage(delayed=1)}, 0, {}), {})
    now_ms = int(time.time() * 1000)
    monkeypatch.setattr("streaming.observing.observation.wall_ms", lambda: now_ms + 601_000)
    assert observation.facts().held_known


def test_whether_anybody_can_be_asked_is_said_of_each_topic() -> None:
    directory, observation = EndpointDirectory({}, 60_000), Observation(Settings())
    directory.hear(*Announcement("shop", "a", "http://a/", 0, topics=("paid",)).to_record(), 1)
    checks = {"shop": group_standing(directory, "shop", 2)}
    observation.of(Owner("query", "job"), lambda: KnownUsage({}, 0, {}), lambda: checks)
    (shop,) = observation.facts().groups
    assert (shop.unasked, shop.unasked_for("paid")) == ("", "")
    assert shop.unasked_for("late") == "no working endpoint for late"
