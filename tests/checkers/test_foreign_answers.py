"""What a remark shows of a response that no check endpoint gave."""

import pytest

from checkback.wire.protocol import Action
from tests.checkers.asking import REQUEST, ask_about
from tests.checkers.serving import http, serving


@pytest.mark.parametrize(
    ("answer", "shown"),
    [
        (http(b"SECRET", "404 SECRET", "Content-Type: text/html; title=SECRET"), "status 404, text/html"),
        (http(b"", "307 SECRET", "Location: http://10.0.0.1/?SECRET", "X-SECRET: SECRET"), "status 307"),
        (http(b"SECRET", "200 OK", "Content-Type: application/SECRET"), "status 200"),
        (http(b'{"state": "SECRET"}', "200 OK", "Content-Type: application/json"), "status 200, application/json"),
        (http(b'{"state": "commit", "remark": "SECRET"}', "500 SECRET"), "status 500"),
        (b"SSH-2.0-SECRET\r\n", "the answer is not valid HTTP"),
        (b"HTTP/1.1 200 OK\r\nSECRET\r\n\r\n", "the answer is not valid HTTP"),
        (b"HTTP/1.1 200 OK\r\nx: " + b"SECRET" * 2_000 + b"\r\n\r\n", "the answer is not valid HTTP"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nSECRET\r\n", "the answer is not valid HTTP"),
    ],
)
def test_a_remark_has_nothing_of_a_foreign_answer_but_status_and_type(answer: bytes, shown: str) -> None:
    """Any service that announces an address could otherwise read through the page what answers there."""
    with serving(answer) as served:
        asked = ask_about(served.url, [REQUEST])
    [verdict] = asked.verdicts
    assert "SECRET" not in verdict.remark + asked.failure
    assert verdict.remark.endswith(f": {shown}")


def test_the_body_of_a_foreign_answer_is_not_read_to_its_end() -> None:
    """It may never come."""
    answer = b"HTTP/1.1 404 Not Found\r\nContent-Length: 1000000\r\n\r\n" + b"x" * 300
    with serving(answer) as served:
        [verdict] = ask_about(served.url, [REQUEST]).verdicts
    assert verdict.action is Action.UNREACHABLE
    assert verdict.remark.endswith("status 404")


def test_a_foreign_answer_whose_body_never_comes_is_judged_by_its_status() -> None:
    with serving(b"HTTP/1.1 404 Not Found\r\nContent-Length: 10\r\n\r\n") as served:
        [verdict] = ask_about(served.url, [REQUEST]).verdicts
    assert verdict.action is Action.UNREACHABLE
    assert verdict.remark.endswith("status 404")
