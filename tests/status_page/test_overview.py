"""What the first page shows beside its four answers, from an index and a job's facts."""

from dataclasses import replace
from typing import Any

import pytest

from checkback.operations.in_doubt import InDoubt
from checkback.wire.checks import SILENT
from checkback.wire.protocol import HalfPosition
from status_page.facts import MOST_GROUPS, BatchFacts, EndpointFacts, GroupFacts, JobFacts, TopicInDoubt
from status_page.overview import GroupsByName, in_doubt_by_topic, stuck, unasked, while_nobody_can_be_heard
from status_page.transactions.index import Index
from status_page.transactions.reading import ListStanding
from status_page.words import NO_ENDPOINT
from tests.status_page.browser import NOW_MS, Place, doubtful, given_up
from tests.status_page.pages.test_pages import text_of

WELL = GroupFacts("limited", 3, endpoints=(EndpointFacts("http://one:1", "well", 2.0),))


def facts(*groups: GroupFacts) -> JobFacts:
    return JobFacts("shop", "0", "run", "host", "kafka:9092", "cb.", "/c", 0, 10, counted=True, groups=groups)


def row(**given: Any) -> InDoubt:
    asked: dict[str, Any] = {
        "topic": "orders",
        "last_answer": "unreachable",
        "answered_ms": 6,
        "misses": 2,
    }
    return InDoubt(
        "tx", "limited", half=HalfPosition(0, 1), attempt=1, check_max=15, ingested_ms=5, asked_ms=6, **asked | given
    )


def test_complete_lists_say_what_is_in_doubt_and_parked_before_the_job_has_counted() -> None:
    place = Place(groups=(GroupFacts("orders", parked=None), GroupFacts("quiet", parked=None)))
    place.doubt(doubtful(1), doubtful(0))
    place.park(given_up(2), given_up(3))
    status = place.browser().get("/api/v1/status").json()
    assert [status[name] for name in ("in_doubt", "in_doubt_oldest_ms", "parked")] == [2, NOW_MS - 60_000, 2]
    assert [group["parked"] for group in status["groups"]] == [2, 0]
    place.transactions.stands = ListStanding(problem="Kafka is away.")
    status = place.browser().get("/api/v1/status").json()
    assert [status[name] for name in ("in_doubt", "in_doubt_oldest_ms", "parked")] == [None] * 3
    assert [group["parked"] for group in status["groups"]] == [None, None]


@pytest.mark.parametrize(
    ("topics", "why"), [(("paid",), "no working endpoint for orders"), (("orders",), ""), (None, "")]
)
def test_a_topic_without_an_endpoint_is_red_though_the_group_has_one(topics: tuple[str, ...] | None, why: str) -> None:
    index, view = Index(), facts(replace(WELL, answers_for=topics))
    index.take_status([(HalfPosition(0, 1), row())])
    by_topic = in_doubt_by_topic(index, view)
    assert by_topic == [TopicInDoubt("limited", "orders", 1, why)]
    assert [one.of.unasked for one in stuck(index, view, by_topic)[0]] == [why]
    assert unasked(by_topic) == ({"limited": why} if why else {})
    assert in_doubt_by_topic(index, facts(replace(WELL, unasked="skipped")))[0].unasked == "skipped"


def test_every_topic_is_looked_at_not_only_those_where_most_are_in_doubt() -> None:
    index, view = Index(), facts(replace(WELL, answers_for=tuple(map(str, range(10)))))
    rows = [row(topic=str(n)) for n in range(10)] * 2 + [row()]
    index.take_status((HalfPosition(0, n), one._replace(half=HalfPosition(0, n))) for n, one in enumerate(rows))
    assert unasked(in_doubt_by_topic(index, view)) == {"limited": "no working endpoint for orders"}


@pytest.mark.parametrize("in_job", [True, False])
def test_a_topic_that_nobody_answers_for_is_red_on_every_page(in_job: bool) -> None:  # noqa: FBT001  (a case)
    well = (EndpointFacts("http://b:1/", "well", 2.0),)
    groups = (GroupFacts("limited", endpoints=well, answers_for=("paid",)),)
    place = Place(groups=groups, endpoints_known=True, checks_in_job=in_job, batch=BatchFacts(12, NOW_MS - 300, 0.4))
    place.doubt(doubtful(1, group="limited", topic="orders"), doubtful(2, group="limited", topic="paid"))
    browser = place.browser()
    why = "no working endpoint for orders"
    said = {path: text_of(browser.get(path).text) for path in ("/", "/transactions", "/transactions/1:1", "/groups")}
    assert f"act: Nobody can be asked; {why}" in said["/"]
    assert f"act: Nobody can be asked; {why}" in said["/transactions"]
    assert f"act: In doubt for 59 s . Nobody can be asked; {why}." in said["/transactions/1:1"]
    assert f"act: {why}" in said["/groups"]
    assert f"2 Nobody to ask in group limited ({why})." in said["/"]
    assert "act:" not in text_of(browser.get("/transactions/2:2").text)


def test_who_was_not_asked_yet_was_not_asked_25_seconds_ago() -> None:
    place = Place()
    place.doubt(
        doubtful(1, last_answer="unreachable", attempt=1, misses=7, answered_ms=NOW_MS, asked_ms=NOW_MS - 25_000)
    )
    listed, one = (text_of(place.browser().get(path).text) for path in ("/transactions", "/transactions/1:1"))
    assert "not asked yet: nobody reachable, 7 tries 25 s ago" in listed
    assert "asked 25 s" not in one
    assert "Last try" in one
    assert not [page for page in (listed, one) if "Last asked" in page]


def test_while_lists_are_read_it_is_not_said_that_nothing_is_in_them() -> None:
    unread = Place()
    unread.transactions.stands = ListStanding()
    assert "is decided." not in unread.browser().get("/transactions").text
    assert "No message waits" not in unread.browser().get("/parked").text


def test_while_kafka_is_away_nobodys_silence_is_held_against_him() -> None:
    silent = EndpointFacts("http://one:1", "skipped", 81.0, f"{SILENT} 81 s")
    refusing = EndpointFacts("http://two:1", "skipped", 2.0, "no connection: Connection refused")
    groups = [GroupFacts(name, 1, endpoints=(one,), unasked="why") for name, one in (("a", silent), ("b", refusing))]
    found = while_nobody_can_be_heard(facts(*groups, GroupFacts("none", 1, unasked="no endpoint", answers_for=())))
    assert [one.unasked for one in found.groups] == ["", "why", "no endpoint"]
    assert found.groups[2].answers_for is None


def test_of_a_group_beyond_those_that_the_job_tells_of_nothing_is_known() -> None:
    some = replace(facts(WELL), endpoints_known=True)
    assert (GroupsByName(some)["another"].open, GroupsByName(some)["another"].unasked) == (0, NO_ENDPOINT)
    many = replace(some, groups=tuple(GroupFacts(str(number), 1) for number in range(MOST_GROUPS)))
    assert (GroupsByName(many)["another"].open, GroupsByName(many)["another"].unasked) == (None, "")
