"""Several checks in one post, and what is left out of them."""

import dataclasses
import json
from typing import Any

import pytest

from checkback import CallableListener, CheckRequest, LocalTransactionState, check_app
from checkback.wire.protocol import Action
from checkers.ask import EndpointAnswer, EndpointVerdict
from tests.checkers.asking import REQUEST, ask_about, never
from tests.checkers.serving import http, serving, serving_app

SEVERAL = [dataclasses.replace(REQUEST, transaction_id=f"tx-{number}") for number in range(3)]


def ask_several(answers: Any) -> list[EndpointVerdict]:
    with serving(http(answers if isinstance(answers, bytes) else json.dumps(answers).encode())) as served:
        return ask_about(served.url, SEVERAL).verdicts


def test_several_checks_are_asked_in_one_post() -> None:
    answers = [{"id": "tx-2", "state": "rollback", "remark": "no"}, {"id": "tx-0", "state": "commit"}]
    with serving(http(json.dumps({"answers": answers}).encode())) as served:
        verdicts = ask_about(served.url, SEVERAL).verdicts
    [(_, body)] = served.requests
    said = json.loads(body)
    assert said["version"] == 1
    assert [CheckRequest.from_json(check) for check in said["checks"]] == SEVERAL
    assert verdicts[0] == EndpointVerdict(Action.COMMIT, "")
    assert (verdicts[1].action, "left this one of 3 checks unanswered" in verdicts[1].remark) == (Action.UNKNOWN, True)
    assert verdicts[2] == EndpointVerdict(Action.ROLLBACK, "no")


@pytest.mark.parametrize("answers", [b"", b"{}", b"<html>"])
def test_a_body_that_is_no_check_endpoints_uses_up_no_attempt_of_any(answers: bytes) -> None:
    assert [verdict.action for verdict in ask_several(answers)] == [Action.UNREACHABLE] * 3


@pytest.mark.parametrize("answers", [b'{"state": "commit"}', b'{"answers": 1}', b'{"answers": [1]}'])
def test_a_body_without_answers_is_unknown_for_all(answers: bytes) -> None:
    assert [verdict.action for verdict in ask_several(answers)] == [Action.UNKNOWN] * 3


@pytest.mark.parametrize(
    "bad",
    [
        *({"state": "perhaps"}, {"state": []}, {}, {"state": None}, {"id": []}, {"id": {}}, {"id": None}),
    ],
)
def test_one_bad_answer_spoils_no_other(bad: dict[str, Any]) -> None:
    answers = [{"id": "tx-0", "state": "commit"}, {"id": "tx-1", **bad}, {"id": "tx-2", "state": "commit"}]
    actions = [verdict.action for verdict in ask_several({"answers": answers})]
    assert actions == [Action.COMMIT, Action.UNKNOWN, Action.COMMIT]


@pytest.mark.parametrize("entry", [b"null", b"1", b'"tx-1"', b"[]", b"[[]]", b"{}", b"9" * 5_000, b"1e999"])
def test_one_entry_that_is_none_spoils_no_other(entry: bytes) -> None:
    answers = b'{"answers": [%b, {"id": "tx-0", "state": "commit"}, {"id": "tx-2", "state": "rollback"}]}' % entry
    actions = [verdict.action for verdict in ask_several(answers)]
    assert actions == [Action.COMMIT, Action.UNKNOWN, Action.ROLLBACK]


def test_one_check_that_json_cannot_say_spoils_no_other_and_no_endpoint() -> None:
    requests = [dataclasses.replace(SEVERAL[0], topic="\ud800"), SEVERAL[1]]
    with serving(http(b'{"state": "commit"}')) as served:
        asked = ask_about(served.url, requests)
    assert asked.failure == ""
    assert [verdict.action for verdict in asked.verdicts] == [Action.UNKNOWN, Action.COMMIT]
    assert "cannot be asked" in asked.verdicts[0].remark


def large(megabytes: int) -> CheckRequest:
    return dataclasses.replace(REQUEST, value=bytes(megabytes * 1_000_000))


@pytest.mark.parametrize(("megabytes", "cut"), [(6, False), (7, True), (50, True)])
def test_a_check_too_large_for_our_endpoint_is_asked_without_its_message(megabytes: int, cut: bool) -> None:  # noqa: FBT001  (pytest gives it by name)
    asked: list[CheckRequest] = []

    def check(request: CheckRequest) -> LocalTransactionState:
        asked.append(request)
        return LocalTransactionState.COMMIT

    with serving_app(check_app(CallableListener(never, check), "orders")) as url:
        [verdict] = ask_about(url, [large(megabytes)]).verdicts
    assert verdict == EndpointVerdict(Action.COMMIT, "")
    [said] = asked
    assert (said.transaction_id, said.left_out > 0, said.value is None, said.half) == ("tx-17", cut, cut, REQUEST.half)


def test_an_endpoint_that_takes_less_is_asked_without_the_message() -> None:
    def check(request: CheckRequest) -> LocalTransactionState:
        return LocalTransactionState.COMMIT if request.left_out else LocalTransactionState.ROLLBACK

    with serving_app(check_app(CallableListener(never, check), "orders", max_body_bytes=1_000)) as url:
        assert ask_about(url, [large(1)]).verdicts == [EndpointVerdict(Action.COMMIT, "")]
        assert ask_about(url, SEVERAL * 10) == EndpointAnswer([], alone=True)


def test_our_endpoint_answers_several() -> None:
    def check(request: CheckRequest) -> LocalTransactionState:
        return LocalTransactionState.COMMIT if request.transaction_id == "tx-1" else LocalTransactionState.ROLLBACK

    with serving_app(check_app(CallableListener(never, check), "orders")) as url:
        actions = [verdict.action for verdict in ask_about(url, SEVERAL).verdicts]
    assert actions == [Action.ROLLBACK, Action.COMMIT, Action.ROLLBACK]


def test_a_hundred_long_remarks_are_not_too_large() -> None:
    requests = [dataclasses.replace(REQUEST, transaction_id=f"{number:064}") for number in range(100)]

    def check(_: CheckRequest) -> LocalTransactionState:
        raise LookupError("ü" * 1_000)

    with serving_app(check_app(CallableListener(never, check), "orders")) as url:
        remarks = [verdict.remark for verdict in ask_about(url, requests).verdicts]
    assert [len(remark) for remark in remarks] == [512] * 100
