"""``checkback status`` and ``groups`` with a job that answers; without one: ``test_on_call.py``."""

import json
from dataclasses import replace

import pytest
from typer.testing import CliRunner, Result

from checkback.operations.in_doubt import InDoubt
from checkback.operations.parked import ParkedMessage
from checkback.operations.producers import AnnouncedEndpoint
from checkback.wire.protocol import HalfPosition
from checkback_cli import app
from checkback_cli.groups.overview import cells, from_topics
from checkback_cli.on_call.status import summary, unasked
from conf import Settings
from status_page.facts import FlowPoint, RefusedMessages, StepFacts, TopicInDoubt
from tests.checkback_cli.facts_made import FACTS, NOW, bodies, page


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments)


def test_what_is_to_be_known_first_comes_first() -> None:
    assert list(summary(FACTS)) == [
        ("note", "Group orders has not been reached for 5 min."),
        ("job", "checkback 0.1.0 on host-1, up for 2 h 5 min, Kafka at kafka:9092"),
        ("flow now", "half 5/s, committed 4.8/s"),
        ("last hour", "half 303, committed 290"),
        ("last batch", "4711, 3 s ago, took 0.5 s, 1,200 records, 2,308/s"),
        ("backlog", "7 records (cb.half-0 7)"),
        ("open", "1,234, the oldest for 2 h"),
        ("parked", "2"),
        ("held", "1,500 committed for shop.late: there is no such topic; next try in 40 s"),
        ("held back", "cb.op-3 for 40 s by somebody's open Kafka transaction"),
    ]


def test_of_a_job_that_has_just_started_it_says_what_is_not_known() -> None:
    steps = (StepFacts("read the checkpoint", NOW - 9_000, 2.0), StepFacts("take over", NOW - 7_000))
    young = replace(FACTS, started_ms=NOW - 60_000, steps=steps, batch=None, flow=(), backlog=None, counted=False)
    lines = list(summary(young))
    said = dict(lines)
    assert said["last batch"] == "none has ended yet"
    assert [line for name, line in lines if name == "start-up"] == [
        "read the checkpoint: 2 s",
        "take over: for 7 s, under way",
    ]
    assert said["open"] == "not known yet: it is counted within some minutes of the start"
    assert {said[name] for name in ("flow now", "since start", "backlog")} == {"not known yet"}
    assert dict(summary(replace(young, held=())))["held"] == "not known yet"


def test_what_is_parked_is_known_from_the_pages_list_before_the_job_has_counted() -> None:
    uncounted = replace(FACTS, counted=False, groups=())
    assert dict(summary(replace(uncounted, parked=50)))["parked"] == "50"
    assert dict(summary(replace(uncounted, parked=None)))["parked"] == "not known yet"


def test_what_the_access_policy_has_refused_is_said() -> None:
    why = "group shop may not send to payroll: no account names that group"
    refused = (
        RefusedMessages("shop", "payroll", 1_200, why, NOW - 60_000),
        RefusedMessages("shop", "", 3, "it is not signed", NOW),
    )
    assert [line for name, line in summary(replace(FACTS, refused=refused)) if name == "refused"] == [
        f"1,200 of group shop for payroll since the start, the last 1 min ago: {why}",
        "3 of group shop (ops) since the start, the last 0 s ago: it is not signed",
    ]


def test_a_try_that_is_due_is_said_to_be() -> None:
    (held,) = FACTS.held
    due = replace(FACTS, held=(replace(held, next_ms=NOW - 2_000),) * 25)
    said = [value for name, value in summary(due) if name == "held"]
    assert said[0] == "1,500 committed for shop.late: there is no such topic; next try is due"
    assert said[20:] == ["and for 5 more topics"]


def test_what_flows_now_is_said_at_once() -> None:
    flow = (FlowPoint(NOW - 40_000), FlowPoint(NOW - 10_000, half=800))
    assert dict(summary(replace(FACTS, flow=flow)))["flow now"] == "half 20/s"
    assert dict(summary(replace(FACTS, flow=flow[1:], started_ms=NOW - 8_000)))["flow now"] == "half 100/s"
    by_lane = (FlowPoint(NOW - 10_000, half=3, committed=2, by_lane=1),)
    assert dict(summary(replace(FACTS, flow=by_lane)))["last hour"] == "half 3, committed 2, by lane 1"


def test_a_job_that_answers_is_shown() -> None:
    with page(bodies()) as url:
        done = invoke("status", "--job", url)
    assert done.exit_code == 0, done.output
    lines = dict(line.split("\t", 1) for line in done.output.splitlines())
    assert lines["open"] == "1,234, the oldest for 2 h"
    assert lines["orders"] == "1234\t2 h\t0\t2\t9\t"
    assert "quiet" not in lines


def test_nobody_to_ask_for_one_topic_is_said_though_the_group_has_a_live_endpoint() -> None:
    with page(bodies()) as url:
        done = invoke("status", "--job", url)
    stuck = [line.split("\t")[1] for line in done.output.splitlines() if line.startswith("stuck")]
    said = "for topic shop.late: nobody can be asked; no working endpoint for shop.late"
    assert stuck == [f"1 in doubt of group {group} {said}" for group in ("orders", "quiet")]
    with page((bodies()[0], b"")) as url:
        assert "stuck\tnot known" in invoke("status", "--job", url).output, "it is not that nothing is"
    many = [TopicInDoubt("g", str(number), 1, "why") for number in range(25)]
    assert list(unasked(many))[20:] == [("stuck", "and in 5 more groups and topics")]


def test_programs_get_all_of_it() -> None:
    with page(bodies()) as url:
        said = json.loads(invoke("status", "--job", url, "--json").output)
    assert said["job"]["groups"][0]["topics"][0]["open"] == 1_234
    assert (said["page"], said["no_answer"]) == (url, "")


def test_one_that_does_not_answer_is_status_1() -> None:
    done = invoke("status", "--job", "http://127.0.0.1:1")
    assert done.exit_code == 1
    assert done.output.startswith("no answer\tNo job answers at http://127.0.0.1:1")


def test_groups_are_shown_with_their_endpoints() -> None:
    with page(bodies()) as url:
        producers = ("groups", "--kind", "producer", "--job", url)
        done = invoke(*producers)
        (only,) = invoke(*producers, "--group", "orders", "--json").output.splitlines()
    nobody = "nobody to ask for shop.late"
    endpoints = f"http://a:1/ (well, heard 3 s ago); http://b:1/ (skipped, connection refused); {nobody}"
    assert done.output.splitlines() == [
        f"orders\t1234\t5\t2 h\t2\t{endpoints}\tproducer",
        f"quiet\t0\t5\t-\t0\tnone; {nobody}\tproducer",
    ]
    said = json.loads(only)
    assert list(said) == ["kind", "group", "open", "in_doubt", "oldest_ms", "parked", "endpoints", "unasked"]
    assert said["endpoints"][1]["reason"] == "connection refused"
    assert said["unasked"] == {"shop.late": "no working endpoint for shop.late"}
    with page((bodies()[0], b"{}")) as url:
        silent = invoke("groups", "--kind", "producer", "--job", url, "--group", "orders")
    assert silent.output.split("\t")[2] == "-", "the page's lists are not read yet: that is no 0"


def test_without_a_job_groups_are_those_of_the_topics() -> None:
    place = HalfPosition(0, 1)
    rows = from_topics(
        [
            AnnouncedEndpoint("shop", "a", "http://x:secret@a:1/", NOW - 5_000, ("paid",)),
            AnnouncedEndpoint("shop", "b", "http://b:1/", NOW - 500_000),
        ],
        [
            InDoubt("x", "shop", "paid", place, 1, 15, NOW, NOW),
            InDoubt("tx", "shop", "t", place, 1, 15, NOW - 60_000, NOW),
            InDoubt("y", "shop", "t", place, 1, 15, NOW, NOW),
        ],
        [ParkedMessage("z", "old", "t", place, "", None, None, NOW)],
        Settings.model_validate({"checks": {"endpoints": {"fixed": ["http://f:1/"]}}}).checks,
        NOW,
    )
    assert [cells(row, NOW) for row in rows] == [
        ("fixed", "-", 0, "-", 0, "http://f:1/"),
        ("old", "-", 0, "-", 1, "none"),
        (
            *("shop", "-", 3, "1 min", 0),
            "http://x:**********@a:1/ (heard 5 s ago); http://b:1/ (heard 8 min ago); nobody to ask for t",
        ),
    ]


@pytest.mark.parametrize("command", ["status", "groups"])
def test_an_address_that_is_none_is_refused(command: str) -> None:
    assert invoke(command, "--job", "nonsense").exit_code == 1
