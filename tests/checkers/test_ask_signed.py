"""Of a group with a key requests are signed, and so must answers be."""

import json

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from checkback import CallableListener, LocalTransactionState, check_app
from checkback.wire.protocol import Action
from checkback.wire.signature import answer_signature, fitting_key, signed_headers
from checkers.ask import EndpointAnswer, EndpointVerdict
from tests.checkers.asking import REQUEST, ask_about, never
from tests.checkers.serving import http, serving, serving_app


def test_a_group_with_a_key_is_asked_with_a_signature() -> None:
    with serving(http(b'{"state": "commit"}')) as served:
        ask_about(served.url, [REQUEST], {"orders": b"secret", "bills": b"other"})
        ask_about(served.url, [REQUEST], {"bills": b"other"})
    (signed, body), (plain, _) = served.requests
    lines = (line.split(": ") for line in signed.decode().splitlines()[1:])
    headers = {name.lower(): value for name, value in lines}
    assert fitting_key([b"secret"], headers, body, 1_000) == b"secret"
    assert headers["checkback-time"] == "1000"
    assert b"checkback-signature" not in plain.lower()


@pytest.mark.parametrize("state", ["commit", "rollback"])
def test_of_a_group_with_a_key_only_a_signed_answer_is_a_verdict(state: str) -> None:
    async def answering(request: Request) -> Response:
        body = json.dumps({"state": state}).encode()
        asked = request.headers["checkback-signature"]
        signed = {
            "own": answer_signature(b"secret", asked, body),
            "another key": answer_signature(b"other", asked, body),
            "another answer": answer_signature(b"secret", asked, b"{}"),
            "another request": answer_signature(b"secret", asked[::-1], body),
            "the request's own": asked,
            "of a request": signed_headers(b"secret", 1_000, body)["checkback-signature"],
        }
        said = signed.get(request.path_params["which"])
        return Response(body, headers={} if said is None else {"checkback-signature": said})

    def asked(which: str) -> EndpointAnswer:
        return ask_about(f"{url}{which}", [REQUEST], {"orders": b"secret"})

    with serving_app(Starlette(routes=[Route("/{which}", answering, methods=["POST"])])) as url:
        assert asked("own").verdicts == [EndpointVerdict(Action(state), "")]
        for which in ("none", "another key", "another answer", "another request", "the request's own", "of a request"):
            answer = asked(which)
            assert (answer.verdicts[0].action, answer.unsigned) == (Action.UNREACHABLE, True), which
            assert "without the signature of its group's key" in answer.failure, which


@pytest.mark.parametrize("status", [204, 302, 401, 413, 500])
def test_of_a_group_with_a_key_another_status_is_a_failure_and_only_an_applications_counts(status: int) -> None:
    async def answering(request: Request) -> Response:
        await request.body()
        return Response(b"" if status == 204 else b'{"state": "commit"}', status)

    with serving_app(Starlette(routes=[Route("/", answering, methods=["POST"])])) as url:
        answer = ask_about(url, [REQUEST], {"orders": b"secret"})
        several = ask_about(url, [REQUEST] * 2, {"orders": b"secret"})
    assert (answer.verdicts[0].action, answer.unsigned) == (Action.UNREACHABLE, status == 500)
    assert f"status {status}" in answer.failure
    assert (several.unsigned, several.alone) == (status in {413, 500}, status == 413)


def test_of_a_group_with_a_key_a_page_under_200_is_no_check_endpoint() -> None:
    with serving(http(b"<html>")) as served:
        answer = ask_about(served.url, [REQUEST], {"orders": b"secret"})
    assert (answer.verdicts[0].action, answer.unsigned) == (Action.UNREACHABLE, False)
    assert answer.failure == f"{served.url}: no check endpoint answered: status 200"


def test_our_endpoint_signs_what_it_answers() -> None:
    listener = CallableListener(never, lambda _: LocalTransactionState.COMMIT)
    app = check_app(listener, "orders", key=["old", "secret"], clock_ms=lambda: 1_000)
    with serving_app(app) as url:
        for several in ([REQUEST], [REQUEST] * 2):
            assert ask_about(url, several, {"orders": b"secret"}).verdicts[0].action is Action.COMMIT
            assert "401" in ask_about(url, several, {"orders": b"wrong"}).verdicts[0].remark
