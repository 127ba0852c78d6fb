"""What the first page shows beside its four answers, from an index and a job's facts."""

from dataclasses import replace
from typing import Any

import pytest

from checkback.operations.in_doubt import InDoubt
from checkback.wire.checks import SILENT, nobody_for
from checkback.wire.protocol import HalfPosition
from status_page.facts import MOST_GROUPS, EndpointFacts, GroupFacts, JobFacts
from status_page.overview import by_name, stuck, unasked_also, while_nobody_can_be_heard
from status_page.transactions.index import Index

WELL = GroupFacts("limited", 3, endpoints=(EndpointFacts("http://one:1", "well", 2.0),))


def facts(*groups: GroupFacts) -> JobFacts:
    return JobFacts("shop", "0", "run", "host", "kafka:9092", "cb.", "/c", 0, 10, counted=True, groups=groups)


def row(**given: Any) -> InDoubt:
    asked = {"last_answer": "unreachable", "answered_ms": 6, "misses": 2, "remark": nobody_for("limited", "orders")}
    return InDoubt("tx", "limited", "orders", HalfPosition(0, 1), 1, 15, 5, 6, **{**asked, **given})


@pytest.mark.parametrize(
    ("given", "red"),
    [
        ({}, True),
        ({"last_answer": "unknown", "remark": "not sure"}, False),
        ({"remark": "no connection: Connection refused"}, False),
    ],
)
def test_a_topic_without_an_endpoint_is_red_though_the_group_has_one(
    given: dict[str, Any],
    red: bool,  # noqa: FBT001  (a case)
) -> None:
    index = Index()
    index.take_status([(HalfPosition(0, 1), row(**given))])
    found, _ = stuck(index, facts(WELL))
    assert [one.unasked for one in found] == [red]
    assert unasked_also({}, found) == ({"limited": "for topic orders no endpoint"} if red else {})
    assert unasked_also({"limited": "endpoint skipped"}, found) == {"limited": "endpoint skipped"}


def test_while_kafka_is_away_nobodys_silence_is_held_against_him() -> None:
    silent = EndpointFacts("http://one:1", "skipped", 81.0, f"{SILENT} 81 s")
    refusing = EndpointFacts("http://two:1", "skipped", 2.0, "no connection: Connection refused")
    groups = [GroupFacts(name, 1, endpoints=(one,), unasked="why") for name, one in (("a", silent), ("b", refusing))]
    found = while_nobody_can_be_heard(facts(*groups, GroupFacts("none", 1, unasked="no endpoint")))
    assert [one.unasked for one in found.groups] == ["", "why", "no endpoint"]


def test_of_a_group_beyond_those_that_the_job_tells_of_nothing_is_known() -> None:
    some = facts(WELL)
    assert by_name(some)["another"].open == 0
    many = replace(some, groups=tuple(GroupFacts(str(number), 1) for number in range(MOST_GROUPS)))
    assert by_name(many)["another"].open is None
