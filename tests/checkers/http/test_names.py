"""Names are looked up a few at a time, once each, and a slow one delays nobody who asks for another."""

import asyncio
import socket
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from checkers.http.names import Address, Names
from checkers.http.shares import OwnMeansError

WELL = [Address(socket.AF_INET, 6, "10.0.0.1")]


class Resolver:
    """Looks names up: those that begin with *slow* take until the end, others are told what to say."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.ending = threading.Event()
        self.says: dict[str, Exception] = {}

    def __call__(self, host: str) -> list[Address]:
        self.asked.append(host)
        if host.startswith("slow"):
            self.ending.wait(20)
        if host in self.says:
            raise self.says[host]
        return WELL


def played(play: Callable[[Resolver, dict[str, float]], Coroutine[Any, Any, None]]) -> None:
    resolver = Resolver()
    try:
        asyncio.run(play(resolver, {"now": 0.0}))
    finally:
        resolver.ending.set()


def names_of(resolver: Resolver, time: dict[str, float], seconds: float = 0.2, lookups: int = 64) -> Names:
    return Names(seconds, lookups, lambda: time["now"], resolver)


def test_a_name_is_looked_up_once_in_a_while() -> None:
    async def play(resolver: Resolver, time: dict[str, float]) -> None:
        names = names_of(resolver, time, seconds=5)
        assert await asyncio.gather(*(names.addresses(group, "shop") for group in "aab")) == [WELL] * 3
        time["now"] = 9.9
        assert await names.addresses("a", "shop") == WELL
        assert resolver.asked == ["shop"]
        time["now"] = 10.0
        assert await names.addresses("a", "shop") == WELL
        assert resolver.asked == ["shop"] * 2

    played(play)


def test_one_that_has_just_failed_fails_again_without_asking() -> None:
    async def play(resolver: Resolver, time: dict[str, float]) -> None:
        names = names_of(resolver, time, seconds=5)
        resolver.says["shop"] = socket.gaierror(socket.EAI_NONAME, "no such name")
        for _ in range(3):
            with pytest.raises(socket.gaierror, match="no such name"):
                await names.addresses("a", "shop")
        assert resolver.asked == ["shop"]
        time["now"] = 2.0
        resolver.says.clear()
        assert await names.addresses("a", "shop") == WELL

    played(play)


@pytest.mark.parametrize("groups", [1, 40])
def test_forty_slow_names_delay_nobody_else(groups: int) -> None:
    async def play(resolver: Resolver, time: dict[str, float]) -> None:
        names = names_of(resolver, time)
        slow = [asyncio.create_task(names.addresses(f"g{number % groups}", f"slow-{number}")) for number in range(40)]
        await asyncio.sleep(0)
        for number in range(20):
            assert await names.addresses("well", f"shop-{number}") == WELL
        for error in await asyncio.gather(*slow, return_exceptions=True):
            assert isinstance(error, OwnMeansError | socket.gaierror)

    played(play)


def test_a_slow_name_is_late_and_is_not_looked_up_twice_at_once() -> None:
    async def play(resolver: Resolver, time: dict[str, float]) -> None:
        names = names_of(resolver, time)
        for _ in range(3):
            with pytest.raises(socket.gaierror, match=r"the name slow was not resolved within 0\.2 s"):
                await names.addresses("a", "slow")
        assert resolver.asked == ["slow"]
        resolver.ending.set()
        await asyncio.gather(*names._under_way.values())
        assert await names.addresses("a", "slow") == WELL

    played(play)


def test_no_more_than_so_many_at_once_and_then_it_is_our_own_fault() -> None:
    async def play(resolver: Resolver, time: dict[str, float]) -> None:
        names = names_of(resolver, time, lookups=2)
        slow = [asyncio.create_task(names.addresses(group, f"slow-{group}")) for group in "ab"]
        await asyncio.sleep(0)
        with pytest.raises(OwnMeansError, match="shop has to wait"):
            await names.addresses("c", "shop")
        await asyncio.gather(*slow, return_exceptions=True)
        resolver.ending.set()
        await asyncio.gather(*names._under_way.values())
        assert await names.addresses("c", "shop") == WELL

    played(play)


def test_an_address_found_before_is_used_while_the_resolver_is_slow() -> None:
    async def play(resolver: Resolver, time: dict[str, float]) -> None:
        names = names_of(resolver, time)
        resolver.ending.set()
        assert await names.addresses("a", "slow") == WELL
        resolver.ending.clear()
        time["now"] = 200.0
        assert await names.addresses("a", "slow") == WELL
        time["now"] = 300.0
        with pytest.raises(socket.gaierror):
            await names.addresses("a", "slow")

    played(play)


def test_only_so_many_names_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("checkers.http.names._MOST_NAMES", 10)

    async def play(resolver: Resolver, time: dict[str, float]) -> None:
        names = names_of(resolver, time, seconds=5)
        for number in range(50):
            await names.addresses("a", f"shop-{number}")
        assert len(names._kept) == 10

    played(play)


def test_localhost_is_found_by_the_systems_resolver() -> None:
    found = asyncio.run(Names(5.0).addresses("a", "localhost"))
    assert {one.text for one in found} & {"127.0.0.1", "::1"}
