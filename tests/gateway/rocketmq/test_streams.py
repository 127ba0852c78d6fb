"""Which client is asked about which groups, as the policy changes."""

import asyncio

from access.credentials import Caller
from checkback.listener import LocalTransactionState
from gateway.asking import Asking, ClientAnswer
from gateway.rocketmq.streams import ClientStream, ClientStreams
from tests.gateway.scene import check_of

COMMIT = ClientAnswer(LocalTransactionState.COMMIT, "")


def test_a_policy_is_looked_at_while_a_client_is_asked_and_nothing_changes() -> None:
    async def scene() -> None:
        asking = Asking(5)
        streams = ClientStreams(asking, lambda *_: True)
        stream = ClientStream("a", Caller("", ""), lambda _: "ticket")
        streams.open(stream)
        streams.sends_as("a", ["orders"])
        asked = asyncio.ensure_future(asking.ask(check_of()))
        await stream.outgoing.get()
        streams.judge_again()
        asking.answer(check_of().half, COMMIT)
        assert await asked == COMMIT

    asyncio.run(scene())


def test_who_may_answer_again_is_asked_again() -> None:
    async def scene() -> None:
        asking = Asking(5)
        allowed = {"orders"}
        streams = ClientStreams(asking, lambda _, group: group in allowed)
        streams.open(ClientStream("a", Caller("", ""), lambda _: "ticket"))
        streams.sends_as("a", ["orders"])
        allowed.clear()
        streams.judge_again()
        assert asking.groups() == []
        allowed.add("orders")
        streams.judge_again()
        assert asking.groups() == ["orders"]

    asyncio.run(scene())
