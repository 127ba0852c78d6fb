"""The first screen's four answers, and its charts."""

from typing import Any

import pytest

from status_page.facts import (
    BatchFacts,
    FlowPoint,
    GroupFacts,
    HeldBackPartition,
    HeldMessages,
    JobFacts,
    PartitionBacklog,
    StepFacts,
    topics_in_doubt,
)
from status_page.overview import GroupsByName, all_groups, unasked
from status_page.pages import charts
from status_page.pages.verdicts import Attention, HealthAnswer, verdicts
from status_page.words import NO_ENDPOINT
from tests.status_page.browser import NOW_MS, FixedView

BATCH = BatchFacts(7, NOW_MS - 500, 0.4, records=100, records_per_second=250.0)
NONE = {"in_doubt": 0, "parked": 0}


def facts(**given: Any) -> JobFacts:
    return FixedView(**{"batch": BATCH, "backlog": (), **NONE, **given}).facts()


def answers(**given: Any) -> list[HealthAnswer]:
    return list(verdicts(facts(**given)))


def doubt(number: int, age_ms: int) -> dict[str, int]:
    return {"in_doubt": number, "in_doubt_oldest_ms": NOW_MS - age_ms}


def flow(**each: int) -> tuple[FlowPoint, ...]:
    """The last ten minutes."""
    return tuple(FlowPoint(NOW_MS - age_ms, **each) for age_ms in range(600_000, 0, -30_000))


def test_a_job_that_is_well_says_so_four_times() -> None:
    found = answers(flow=flow(half=10, committed=9))
    assert [(one.level, one.answer) for one in found] == [
        (Attention.WELL, "Yes"),
        (Attention.WELL, "None"),
        (Attention.WELL, "Nothing"),
        (Attention.WELL, "No"),
    ]
    assert found[0].detail == "20 half messages and 18 commits a minute, since the start, 1 min ago."


def test_nothing_flows_while_kafka_is_away() -> None:
    late = BatchFacts(7, NOW_MS - 21_000, 0.4, records=100, records_per_second=250.0)
    (found, *_) = answers(flow=flow(half=10, committed=9), batch=late, kafka_away_ms=NOW_MS - 20_000)
    assert (found.level, found.answer) == (Attention.ACT, "No")
    assert found.detail == "Kafka has not answered for 20 s; the job retries."


@pytest.mark.parametrize(
    ("took", "seconds", "level", "answer"),
    [
        (0.4, 14, Attention.WELL, "Yes"),
        (0.4, 16, Attention.LOOK, "Not at present"),
        (0.4, 61, Attention.ACT, "No"),
        (15.0, 44, Attention.WELL, "Yes"),
        (15.0, 46, Attention.LOOK, "Not at present"),
        (90.0, 61, Attention.ACT, "No"),
    ],
)
def test_nothing_flows_if_no_batch_ends(took: float, seconds: int, level: Attention, answer: str) -> None:
    """The figures of the last five minutes say nothing of that: Kafka may be away. Batches of a backlog are long."""
    late = BatchFacts(7, NOW_MS - seconds * 1000, took, records=100, records_per_second=250.0)
    (found, *_) = answers(flow=flow(half=10, committed=9), batch=late)
    assert (found.level, found.answer) == (level, answer)


def test_what_lanes_have_delivered_is_named_where_there_is_any() -> None:
    (found, *_) = answers(flow=flow(half=10, committed=9, by_lane=6))
    named = "18 commits (12 delivered by their producers' lanes) a minute"
    assert found.detail == f"20 half messages and {named}, since the start, 1 min ago."


@pytest.mark.parametrize(
    ("given", "level", "answer"),
    [
        ({"batch": None}, Attention.LOOK, "Starting"),
        ({"batch": None, "running_ms": NOW_MS - 59_000}, Attention.LOOK, "Starting"),
        ({"batch": None, "running_ms": NOW_MS - 61_000}, Attention.ACT, "No"),
        ({"batch": BatchFacts(7, NOW_MS - 61_000, 1.0)}, Attention.ACT, "No"),
        ({}, Attention.WELL, "Quiet"),
    ],
)
def test_whether_transactions_flow(given: dict[str, Any], level: Attention, answer: str) -> None:
    found = answers(**given)[0]
    assert (found.level, found.answer) == (level, answer)


def test_the_page_is_not_green_while_messages_are_held() -> None:
    held = (HeldMessages("shop.late", 3, "there is no such topic", NOW_MS), HeldMessages("shop.b", 1, "x", NOW_MS))
    found = answers(flow=flow(half=10, committed=9), held=held)[0]
    assert (found.level, found.answer) == (Attention.LOOK, "Not all")
    assert found.detail == "4 committed messages held; topic shop.late: there is no such topic."


def test_the_page_is_not_green_before_it_is_known_whether_messages_are_held() -> None:
    flows = answers(held_known=False)[0]
    assert flows.level is Attention.LOOK
    assert flows.detail.endswith("Whether messages from before its start are held is not known yet.")


def test_nothing_is_green_while_it_is_not_known() -> None:
    step = StepFacts("start Java and Spark", NOW_MS - 132_000)
    unread = facts(batch=None, backlog=None, steps=(step,), in_doubt=None, parked=None)
    found = verdicts(unread, lacking="Kafka has no topic cb.status.")
    assert [one.detail for one in found[1:3]] == ["Kafka has no topic cb.status."] * 2
    assert [(one.level, one.answer) for one in found] == [
        (Attention.LOOK, "Starting"),
        (Attention.LOOK, "Not known yet"),
        (Attention.LOOK, "Not known yet"),
        (Attention.LOOK, "Not known yet"),
    ]
    assert found[0].detail == ("No batch has ended yet; started 1 min ago. Now, for 2 min 12 s: start Java and Spark.")
    behind = answers(batch=None, backlog=(PartitionBacklog("cb.half", 0, 20_000),))[3]
    assert (behind.level, behind.answer) == (Attention.LOOK, "Yes")
    assert answers(batch=None, backlog=())[3].level == Attention.LOOK


def test_a_job_that_has_taken_in_nothing_is_not_quiet_while_records_wait() -> None:
    waiting = answers(backlog=(PartitionBacklog("cb.half", 0, 2_000),))[0]
    assert (waiting.level, waiting.answer) == (Attention.LOOK, "Not at present")
    assert waiting.detail == "Nothing has been taken in since the start, 1 min ago; 2,000 records to be taken in."
    blind = answers(backlog=None)[0]
    assert (blind.level, blind.detail) == (Attention.LOOK, "Nothing has been taken in since the start, 1 min ago.")


def test_what_is_in_doubt_for_long_needs_a_look() -> None:
    young, old = answers(**doubt(3, 599_000))[1], answers(**doubt(1, 600_000))[1]
    assert (young.level, young.answer, young.link) == (Attention.WELL, "3", "/transactions")
    assert (old.level, old.detail) == (Attention.LOOK, "It was taken in 10 min ago.")
    unread = answers(batch=None, backlog=(PartitionBacklog("cb.half", 0, 380),))[1]
    assert (unread.level, unread.answer) == (Attention.LOOK, "Not known yet"), "none can be in the list yet"
    starting = answers(**doubt(3, 1_000), batch=None)[1]
    assert starting.level == Attention.LOOK, "whom one can ask is not known yet"


def test_a_group_with_some_in_doubt_and_nobody_to_ask_is_red() -> None:
    view = facts(endpoints_known=True, groups=(GroupFacts("well"),), **doubt(20_003, 1_000))
    counts = {("well", "a"): 3, ("never", "b"): 20_000, ("never", "a"): 7, ("over", "a"): 0}
    stuck = unasked(topics_in_doubt(counts, GroupsByName(view)))
    assert stuck == {"never": NO_ENDPOINT}
    found = verdicts(view, unasked=stuck)[1]
    assert found.level == Attention.ACT
    assert found.detail == "Nobody to ask in group never (no endpoint)."
    named, other = all_groups(view, {"never": 1})
    assert (named.group, other.group) == ("well", "never")
    assert (other.open, other.open_bytes, other.delayed, other.parked) == (None,) * 4, "they were not counted"
    assert all_groups(facts(counted=True), {"never": 1})[0].open == 0
    elsewhere = topics_in_doubt(counts, GroupsByName(facts()))
    assert not unasked(elsewhere), "endpoints of other processes are not known here"


def test_what_is_said_of_groups_without_anybody_to_ask_is_short_whatever_the_cause() -> None:
    cause = f"all 3 endpoints skipped: http://10.0.0.7:8080/: no complete answer in time {'x' * 200}"
    unreached = {"orders": cause, "b": NO_ENDPOINT, "c": NO_ENDPOINT}
    said = verdicts(facts(**doubt(9, 1_000)), unasked=unreached)[1].detail
    assert said == "Nobody to ask in group orders (all 3 endpoints skipped) and 2 others."
    long = verdicts(facts(**doubt(9, 1_000)), unasked={"g" * 255: "y" * 300})[1].detail
    assert len(long) < 100
    held = (HeldMessages("t" * 249, 3, "z" * 300, NOW_MS),)
    assert len(answers(held=held)[0].detail) < 160


def test_anything_parked_needs_somebody() -> None:
    found = answers(parked=1_204)[2]
    assert (found.level, found.answer, found.link) == (Attention.ACT, "1,204", "/parked")


def test_whether_the_job_is_behind() -> None:
    behind = answers(backlog=(PartitionBacklog("cb.half", 0, 20_000), PartitionBacklog("cb.op", 1, 1)))[3]
    assert (behind.level, behind.detail) == (
        Attention.LOOK,
        "20,001 records to be taken in: 1 min 20 s at its best speed.",
    )
    little = answers(backlog=(PartitionBacklog("cb.half", 0, 200),))[3]
    assert (little.level, little.answer) == (Attention.WELL, "No")
    standing = answers(batch=BatchFacts(7, NOW_MS - 61_000, 0.1), backlog=(PartitionBacklog("cb.half", 0, 200),))[3]
    assert (standing.level, standing.detail) == (
        Attention.LOOK,
        "200 records to be taken in: the last batch took in none.",
    )
    held = answers(held_back=(HeldBackPartition("cb.op", 3, 40.0), HeldBackPartition("cb.op", 4, 90.0)))[3]
    assert held.detail == "Somebody's open Kafka transaction has hidden partition 4 of cb.op for 1 min 30 s."
    named = answers(held_back=(HeldBackPartition("cb.op", 3, 40.0, "producer 7, transactional id 'x'"),))[3]
    assert named.detail.endswith("for 40 s: it is of producer 7, transactional id 'x'.")


def test_a_batch_of_one_record_does_not_say_how_fast_the_job_is() -> None:
    small = BatchFacts(7, NOW_MS - 400, 24.0, records=1, records_per_second=1 / 24)
    waiting = (PartitionBacklog("cb.half", 0, 151),)
    next_reads = answers(batch=small, backlog=waiting, batch_limit=4_000)[3]
    assert (next_reads.level, next_reads.answer) == (Attention.WELL, "No")
    assert next_reads.detail == "151 records to be taken in: the next batch reads them all."
    more = answers(batch=small, batches=(BATCH, small), backlog=waiting, batch_limit=64)[3]
    assert more.detail == "151 records to be taken in: 604 ms at its best speed."
    still = BatchFacts(7, NOW_MS - 61_000, 24.0, records=1, records_per_second=1 / 24)
    assert answers(batch=still, backlog=waiting, batch_limit=4_000)[3].level is Attention.LOOK


def test_a_chart_says_in_words_what_it_shows() -> None:
    points = (*flow(half=5)[:-1], FlowPoint(NOW_MS - 30_000, half=20))
    half, committed, *_ = charts.charts(points, NOW_MS)
    assert half.total == 115
    assert half.description == "115 since 07:50 UTC, most at 07:59 UTC: 40 a minute; 40 a minute now."
    assert half.line.endswith(f" 238.0,{4:.1f}")
    assert half.line.startswith("200.0,42.2")
    assert (committed.total, committed.description) == (0, "0 since 07:50 UTC.")


def test_a_chart_has_the_last_hour_only_and_may_be_empty() -> None:
    assert charts.charts((), NOW_MS)[0].line == ""
    old = FlowPoint(NOW_MS - 3_600_001, half=9)
    assert charts.charts((old, FlowPoint(NOW_MS, half=1)), NOW_MS)[0].total == 1


def test_retries_of_held_messages_have_a_chart_of_their_own_when_there_are_some() -> None:
    quiet, busy = (charts.charts(flow(half=5, retried=number), NOW_MS) for number in (0, 2))
    assert [one.name for one in busy if one not in quiet] == ["retried"]
    assert [one.total for one in busy if one.name in {"half", "retried"}] == [100, 40]


def test_the_table_has_the_same_numbers() -> None:
    rows = charts.table(flow(half=5, rejected=1), NOW_MS)
    assert [row.numbers for row in rows] == [(50, 0, 0, 0, 0, 10, 0), (50, 0, 0, 0, 0, 10, 0)]
    assert rows[0].time_ms == NOW_MS - 300_000


def test_of_before_the_start_neither_charts_nor_table_say_a_number() -> None:
    """What an earlier run did in this hour is in the topics, and not known here: a 0 would be wrong."""
    late = tuple(FlowPoint(NOW_MS - age_ms, half=5) for age_ms in range(420_000, 0, -30_000))
    newest, oldest = charts.table(late, NOW_MS)
    assert (oldest.time_ms, oldest.numbers[0], newest.numbers[0]) == (NOW_MS - 420_000, 20, 50)
    assert "hour" not in charts.charts(late, NOW_MS)[0].description
    whole = tuple(FlowPoint(NOW_MS - age_ms) for age_ms in range(3_585_000, 0, -30_000))
    assert charts.charts(whole, NOW_MS)[0].description == "0 in the last hour."
    assert len(charts.table(whole, NOW_MS)) == 12
    assert charts.table((), NOW_MS) == ()
