"""An answer that costs much to read is not read to its end: the loop that reads it has other endpoints to ask."""

import asyncio

import pytest

from checkback.wire.protocol import Action
from checkers import EndpointVerdict
from checkers.http.session import BoundedConnector
from tests.checkers.asking import REQUEST, ask_about
from tests.checkers.serving import http, serving

BODY = b'{"state": "commit"}'
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


def chunks(body: bytes, size: int) -> bytes:
    pieces = [body[at : at + size] for at in range(0, len(body), size)]
    return CHUNKED + b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"


@pytest.mark.parametrize(
    "answer",
    [CONTINUE * 10_000 + http(BODY), chunks(BODY + b" " * 10_000, 1)],
    ids=["informational answers", "small chunks"],
)
def test_an_answer_with_too_much_around_its_body_uses_up_no_attempt(answer: bytes) -> None:
    with serving(answer) as served:
        asked = ask_about(served.url, [REQUEST])
    assert asked.verdicts == [EndpointVerdict(Action.UNREACHABLE, asked.failure)]
    assert asked.failure.endswith("the answer is not valid HTTP: more than 16 KiB of it are not its body")


@pytest.mark.parametrize("answer", [CONTINUE * 10 + http(BODY), chunks(BODY + b" " * 60_000, 512)])
def test_a_long_answer_in_chunks_and_some_informational_ones_are_taken(answer: bytes) -> None:
    with serving(answer) as served:
        assert ask_about(served.url, [REQUEST]).verdicts == [EndpointVerdict(Action.COMMIT, "")]


@pytest.mark.parametrize(
    "received",
    [[CONTINUE * 10_000], [CONTINUE[:1], CONTINUE[1:]] * 10_000, [http(BODY), CONTINUE * 10_000]],
    ids=["at once", "in small pieces", "after an answer"],
)
def test_of_much_that_comes_only_the_first_part_is_parsed(received: list[bytes]) -> None:
    async def parsed() -> tuple[int, BaseException | None]:
        connector = BoundedConnector(2)
        handler = connector._factory()
        handler.set_response_params()
        for data in received:
            handler.data_received(data)
        await connector.close()
        return len(handler), handler.exception()

    answers, error = asyncio.run(parsed())
    assert 0 < answers < 1_000
    assert error is not None
