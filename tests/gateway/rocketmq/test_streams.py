"""Which client is asked about which groups, as the policy changes."""

import asyncio

import pytest

from access.credentials import Caller
from checkback.listener import LocalTransactionState
from gateway.asking import Asking, ClientAnswer
from gateway.rocketmq import streams as streams_module
from gateway.rocketmq.streams import ClientStream, ClientStreams
from gateway.tickets import Ticket
from tests.gateway.scene import check_of

COMMIT = ClientAnswer(LocalTransactionState.COMMIT, "")


async def test_a_policy_is_looked_at_while_a_client_is_asked_and_nothing_changes() -> None:
    asking = Asking(5)
    streams = ClientStreams(asking, lambda *_: True)
    stream = ClientStream("a", Caller("", ""), lambda _: "ticket")
    streams.open(stream)
    streams.sends_as(Caller("", ""), "a", ["orders"])
    asked = asyncio.ensure_future(asking.ask(check_of()))
    await stream.next()
    streams.judge_again()
    asking.answer(Ticket.of(check_of()), COMMIT)
    assert await asked == COMMIT


async def test_who_may_answer_again_is_asked_again() -> None:
    asking = Asking(5)
    allowed = {"orders"}
    streams = ClientStreams(asking, lambda _, group: group in allowed)
    streams.open(ClientStream("a", Caller("", ""), lambda _: "ticket"))
    streams.sends_as(Caller("", ""), "a", ["orders"])
    allowed.clear()
    streams.judge_again()
    assert asking.groups() == []
    allowed.add("orders")
    streams.judge_again()
    assert asking.groups() == ["orders"]


async def test_a_client_that_reads_nothing_is_cut_off() -> None:
    stream = ClientStream("a", Caller("", ""), lambda _: "ticket")
    for _ in range(2_000):
        stream.hand(check_of())
    assert not stream.listening
    assert await stream.next() is None


async def test_nobody_is_known_by_another_accounts_client_id() -> None:
    owner, thief = Caller("shop", "shop-1"), Caller("other", "other-1")
    asking = Asking(5)
    streams = ClientStreams(asking, lambda caller, group: group in {"shop": {"orders"}, "other": {"x"}}[caller.account])
    streams.sends_as(thief, "a", [str(number) for number in range(2_000)])
    streams.sends_as(owner, "a", ["orders"])
    streams.forget(thief, "a")
    streams.open(ClientStream("a", owner, lambda _: "ticket"))
    assert asking.groups() == ["orders"]
    streams.forget(thief, "a")
    assert asking.groups() == ["orders"]


async def test_all_clients_of_an_account_name_so_many_groups_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is announced every ten seconds: one account made 130,000 of them."""
    monkeypatch.setattr(streams_module, "_MOST_OF_ACCOUNT", 3)
    asking = Asking(5)
    streams = ClientStreams(asking, lambda *_: True)
    wild, other = Caller("wild", ""), Caller("other", "")
    for number in range(4):
        name = f"c{number}"
        streams.open(ClientStream(name, wild, lambda _: "ticket"))
        streams.sends_as(wild, name, [f"g{number}", "g0"])
    streams.open(ClientStream("c", other, lambda _: "ticket"))
    streams.sends_as(other, "c", ["theirs"])
    assert sorted(asking.groups()) == ["g0", "g1", "g2", "theirs"]
    streams.forget(wild, "c1")
    streams.sends_as(wild, "c3", ["g3"])
    assert sorted(asking.groups()) == ["g0", "g2", "g3", "theirs"]


WILD, OTHER = Caller("wild", ""), Caller("other", "")


def known(streams: ClientStreams, asking: Asking, caller: Caller, client_id: str) -> list[str]:
    """The groups that a new stream of a client is asked about."""
    stream = ClientStream(client_id, caller, lambda _: "ticket")
    streams.open(stream)
    groups = sorted(asking.groups())
    streams.close(stream)
    return groups


async def test_names_that_clients_made_up_are_released() -> None:
    """A million of them took 97 MiB, which was never released."""
    now = 0.0
    asking = Asking(5)
    streams = ClientStreams(asking, lambda *_: True, lambda: now)
    streams.open(ClientStream("connected", OTHER, lambda _: "ticket"))
    for caller, name in ((OTHER, "connected"), (WILD, "gone")):
        streams.sends_as(caller, name, ["orders"])
    now = 599
    streams.judge_again()
    assert known(streams, asking, WILD, "gone") == ["orders"]
    now = 601
    streams.judge_again()
    assert known(streams, asking, OTHER, "connected") == ["orders"]
    streams.end_all()
    assert streams._accounts["wild"].clients == {}
    assert streams._accounts["wild"]._groups == {}


async def test_names_of_one_account_displace_none_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams_module, "_MOST_CLIENTS", 3)
    asking = Asking(5)
    streams = ClientStreams(asking, lambda *_: True)
    streams.sends_as(OTHER, "c", ["theirs"])
    for number in range(5):
        streams.sends_as(WILD, f"c{number}", ["g"])
        streams.respells(WILD, f"d{number}")
    assert known(streams, asking, OTHER, "c") == ["theirs"]
    assert known(streams, asking, WILD, "c0") == []
    assert known(streams, asking, WILD, "c4") == ["g"]


async def test_all_clients_of_an_account_name_so_many_groups_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """5,000 clients with 1,000 groups each would be 5 million names."""
    monkeypatch.setattr(streams_module, "_MOST_NAMED", 3)
    asking = Asking(5)
    streams = ClientStreams(asking, lambda *_: True)
    streams.sends_as(WILD, "a", ["g1", "g2"])
    streams.sends_as(WILD, "b", ["g1", "g2"])
    assert known(streams, asking, WILD, "b") == ["g1"]
    streams.forget(WILD, "a")
    streams.sends_as(WILD, "b", ["g2"])
    assert known(streams, asking, WILD, "b") == ["g1", "g2"]
