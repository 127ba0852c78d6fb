"""Long polls with the questions of check services, on a clock of the test's."""

import asyncio
from typing import Any

import pytest

from access.credentials import Caller
from checkback.listener import LocalTransactionState
from gateway.asking import Asking, ClientAnswer, Heard
from gateway.http import polls as polls_module
from gateway.http.polls import KEPT_SECONDS, Polls
from gateway.refusals import GatewayError, RefusalReason
from gateway.tickets import Ticket
from tests.gateway.http.served import GROUP, NOW_MS, STRANGER, TOKEN, Served, access_in, check

FAR = 60.0
"""Seconds of a poll that something ends long before."""
ADA, BOB = Caller("ada", "k1"), Caller("bob", "k2")
COMMIT = ClientAnswer(LocalTransactionState.COMMIT, "")


class Desk:
    """Polls, and a clock that stands still."""

    def __init__(self, patience_seconds: float = FAR) -> None:
        self.asking = Asking(patience_seconds)
        self.seconds = 0.0
        self.allowed = {ADA, BOB}
        self.polls = Polls(self.asking, lambda caller, _: caller in self.allowed, lambda: self.seconds)

    def poll(self, caller: Caller = ADA, seconds: float = FAR, most: int = 10) -> "asyncio.Task[list[Any]]":
        return asyncio.ensure_future(self.polls.poll(caller, "shop", most, seconds))

    def ask(self, number: int = 0) -> "asyncio.Task[ClientAnswer | None]":
        return asyncio.ensure_future(self.asking.ask(check(number)))


async def turn() -> None:
    """Whatever can go on goes on."""
    for _ in range(10):
        await asyncio.sleep(0)


async def test_a_poll_that_waits_is_told_of_a_check_and_its_answer_is_the_check_services() -> None:
    desk = Desk()
    polling = desk.poll()
    await turn()
    asked = desk.ask()
    assert await polling == [check()]
    assert not asked.done()
    assert desk.asking.answer(Ticket.of(check()), COMMIT) is Heard.AS_END
    assert await asked == COMMIT


async def test_a_check_that_came_between_two_polls_is_the_next_ones() -> None:
    desk = Desk()
    assert await desk.poll(seconds=0) == []
    asked = desk.ask()
    await turn()
    assert await desk.poll(seconds=0) == [check()]
    assert await desk.poll(seconds=0) == []
    desk.asking.answer(Ticket.of(check()), COMMIT)
    assert await asked == COMMIT


async def test_a_check_that_no_poll_has_seen_was_not_asked() -> None:
    """Else a script that comes once a minute would use up all attempts while it is away."""
    desk = Desk(patience_seconds=0)
    await desk.poll(seconds=0)
    assert await desk.ask() is None
    assert await desk.poll(seconds=0) == []


async def test_a_check_that_a_poll_has_seen_and_does_not_answer_is_unknown() -> None:
    desk = Desk(patience_seconds=0.05)
    polling = desk.poll()
    await turn()
    said = await desk.ask()
    assert said is not None
    assert said.state is LocalTransactionState.UNKNOWN
    assert "ada (HTTP) said nothing" in said.remark
    assert await polling == [check()]


async def test_a_check_that_was_answered_is_handed_to_nobody() -> None:
    desk = Desk()
    await desk.poll(seconds=0)
    asked = desk.ask()
    await turn()
    desk.asking.answer(Ticket.of(check()), COMMIT)
    await asked
    assert await desk.poll(seconds=0) == []


async def test_who_waits_is_asked_before_who_does_not() -> None:
    desk = Desk()
    await desk.poll(ADA, seconds=0)  # which has been asked for longest
    waiting = desk.poll(BOB)
    await turn()
    for number in range(3):
        asked = desk.ask(number)
        assert await waiting == [check(number)]
        desk.asking.answer(Ticket.of(check(number)), COMMIT)
        await asked
        waiting = desk.poll(BOB)
        await turn()
    waiting.cancel()
    assert await desk.poll(ADA, seconds=0) == []


async def test_of_two_polls_each_check_goes_to_one() -> None:
    desk = Desk()
    first, second = desk.poll(most=1), desk.poll(most=1)
    await turn()
    asked = [desk.ask(number) for number in range(2)]
    found = await asyncio.gather(first, second)
    assert sorted(one.transaction_id for taken in found for one in taken) == ["tx-0", "tx-1"]
    assert [len(taken) for taken in found] == [1, 1]
    for task in asked:
        task.cancel()


async def test_a_poll_takes_no_more_than_it_asked_for() -> None:
    desk = Desk()
    await desk.poll(seconds=0)
    asked = [desk.ask(number) for number in range(3)]
    await turn()
    assert await desk.poll(most=2) == [check(0), check(1)]
    assert await desk.poll(most=2) == [check(2)]
    for task in asked:
        task.cancel()


async def test_a_group_can_be_asked_for_until_a_while_after_its_last_poll() -> None:
    desk = Desk()
    waiting = desk.poll()
    await turn()
    assert desk.asking.changed.is_set()
    desk.seconds = 1_000
    desk.polls.judge_again()
    assert desk.asking.groups() == ["shop"]
    desk.polls.end_all()
    await waiting
    desk.seconds += KEPT_SECONDS - 1
    desk.polls.judge_again()
    assert desk.asking.groups() == ["shop"]
    desk.seconds += 1
    desk.polls.judge_again()
    assert desk.asking.groups() == []


async def test_who_may_no_more_is_asked_no_more() -> None:
    desk = Desk()
    waiting = desk.poll()
    await turn()
    desk.allowed = {BOB}
    desk.polls.judge_again()
    assert desk.asking.groups() == []
    assert await waiting == []


async def test_a_gateway_that_ends_keeps_nobody_waiting() -> None:
    desk = Desk()
    waiting = desk.poll()
    await turn()
    desk.polls.end_all()
    assert await waiting == []
    assert await desk.poll() == []
    assert await desk.polls.poll(BOB, "of another group", 1, FAR) == []


async def test_groups_that_are_polled_for_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(polls_module, "_MOST_CHANNELS", 1)
    desk = Desk()
    await desk.poll(seconds=0)
    await desk.poll(seconds=0)
    with pytest.raises(GatewayError) as refused:
        await desk.polls.poll(ADA, "other", 1, 0)
    assert refused.value.refusal is RefusalReason.BUSY


async def test_an_account_has_no_more_polls_than_it_leaves_free() -> None:
    """3,000 polls of one account took all connections: nobody else was answered."""
    desk = Desk()
    desk.polls = Polls(desk.asking, lambda *_: True, lambda: 0.0, most=10)
    hers = [desk.poll() for _ in range(7)]
    await turn()
    refused = [poll.exception() for poll in hers if poll.done()]
    assert [error.refusal for error in refused if isinstance(error, GatewayError)] == [RefusalReason.BUSY] * 2
    his = desk.poll(BOB)
    await turn()
    assert not his.done(), "it waits"
    desk.polls.end_all()
    await asyncio.gather(*hers, his, return_exceptions=True)


async def test_a_check_over_http_is_answered_by_a_commit(served: Served) -> None:
    polling = asyncio.ensure_future(served.client.get(f"{GROUP}/checks?wait=60&max=1"))
    await served.asking.changed.wait()
    asked = asyncio.ensure_future(served.asking.ask(check(7)))
    answer = await polling
    assert answer.status_code == 200
    (said,) = answer.json()["checks"]
    assert said == {
        "transaction": served.ticket(check(7)),
        "id": "tx-7",
        "group": "shop",
        "topic": "orders",
        "messages": [{"topic": "orders", "key": "17", "value": "a book", "headers": [{"name": "trace", "value": "x"}]}],
        "attempt": 1,
        "check_max": 15,
        "ingested_ms": NOW_MS,
    }
    ended = await served.client.post(f"/v1/transactions/{said['transaction']}/commit", json={"remark": "paid"})
    assert ended.status_code == 204
    assert await asked == ClientAnswer(LocalTransactionState.COMMIT, "paid")
    (op,) = served.written  # also where the check service is gone before it has heard it
    assert dict(op.headers)["cb-action"] == b"commit"


async def test_nothing_came(served: Served) -> None:
    answer = await served.client.get(f"{GROUP}/checks?wait=0")
    assert (answer.status_code, answer.json()) == (200, {"checks": []})


async def test_a_client_that_went_is_not_asked(served: Served) -> None:
    """What it would have been told, the next poll is told."""
    messages = iter([{"type": "http.request"}, {"type": "http.disconnect"}])
    scope = {
        "type": "http",
        "method": "GET",
        "path": f"{GROUP}/checks",
        "query_string": b"wait=60",
        "headers": [(b"host", b"localhost")],
    }

    async def receive() -> Any:
        return next(messages)

    async def send(_: Any) -> None:
        """Nobody reads it."""

    await served.app(scope, receive, send)
    await turn()
    asked = asyncio.ensure_future(served.asking.ask(check()))
    await turn()
    answer = await served.client.get(f"{GROUP}/checks?wait=0")
    assert [one["id"] for one in answer.json()["checks"]] == ["tx-0"]
    asked.cancel()


async def test_only_its_own_accounts_poll_for_a_group(tmp_path: Any) -> None:
    served = Served(access_in(tmp_path))
    for token, status in ((TOKEN, 200), (STRANGER, 403)):
        bearer = {"authorization": f"Bearer {token}"}
        answer = await served.client.get(f"{GROUP}/checks?wait=0", headers=bearer)
        assert answer.status_code == status
    assert served.asking.clients() == 1


@pytest.mark.parametrize("query", ["wait=-1", "wait=61", "wait=nan", "wait=x", "max=0", "max=101", "max=1.5", "most=1"])
async def test_a_poll_that_asks_for_the_impossible_is_refused(served: Served, query: str) -> None:
    answer = await served.client.get(f"{GROUP}/checks?{query}")
    assert answer.status_code == 400
    assert query.partition("=")[0] in answer.json()["detail"]
    assert served.asking.clients() == 0


async def test_a_head_takes_no_checks(served: Served) -> None:
    answer = await served.client.head(f"{GROUP}/checks")
    assert answer.status_code == 405
    assert served.asking.clients() == 0
