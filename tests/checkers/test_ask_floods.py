"""An answer that costs much to read is not read to its end: the loop that reads it has other endpoints to ask."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from checkback.wire.protocol import Action
from checkers import ask
from checkers.ask import Asker, EndpointVerdict
from checkers.directory import Endpoint
from checkers.http.admission import AllowList
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


def test_one_long_answer_is_read_in_a_turn_of_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    content = b'{"answers": [' + b"[]," * 40_000 + b"[]]}"
    response = ask._Response(200, content, complete=True, signed=True, content_type="application/json")
    turns, read_in = [0], list[int]()

    async def post(*_: Any) -> ask._Response:
        return response

    async def count() -> None:
        while True:
            turns[0] += 1
            await asyncio.sleep(0)

    async def asked() -> None:
        nothing: Any = None
        asker = Asker(nothing, AllowList([]))
        counting = asyncio.create_task(count())
        two = [REQUEST, replace(REQUEST, transaction_id="tx-18")]
        await asyncio.gather(*(asker.ask(Endpoint("http://127.0.0.1/", 2), two) for _ in range(5)))
        counting.cancel()

    monkeypatch.setattr(Asker, "_post", post)
    monkeypatch.setattr(ask, "_read", lambda *_: read_in.append(turns[0]))
    asyncio.run(asked())
    assert len(set(read_in)) == len(read_in) == 5
