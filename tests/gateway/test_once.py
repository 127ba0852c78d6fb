"""What is asked for again under the same name is done once."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from gateway.once import KEPT_SECONDS, Once


async def do(once: Once[int], name: str, act: Callable[[], Awaitable[int]]) -> int:
    return await asyncio.shield(once.begun(name, act))


class Work:
    def __init__(self) -> None:
        self.done = 0
        self.failing = False
        self.going = asyncio.Event()

    def act(self, *, wait: bool = False) -> Callable[[], Awaitable[int]]:
        async def do() -> int:
            if wait:
                await self.going.wait()
            if self.failing:
                raise LookupError("not now")
            self.done += 1
            return self.done

        return do


async def test_the_second_gets_what_the_first_got() -> None:
    work, once = Work(), Once[int]()
    assert [await do(once, "a", work.act()), await do(once, "a", work.act()), await do(once, "b", work.act())] == [
        1,
        1,
        2,
    ]


async def test_the_second_waits_for_the_first_who_may_have_gone() -> None:
    work, once = Work(), Once[int]()
    first = asyncio.ensure_future(do(once, "a", work.act(wait=True)))
    await asyncio.sleep(0)
    second = asyncio.ensure_future(do(once, "a", work.act(wait=True)))
    await asyncio.sleep(0)
    first.cancel()
    work.going.set()
    assert await second == 1
    assert work.done == 1


async def test_what_failed_is_tried_again() -> None:
    work, once = Work(), Once[int]()
    work.failing = True
    with pytest.raises(LookupError):
        await do(once, "a", work.act())
    work.failing = False
    assert await do(once, "a", work.act()) == 1


async def test_it_is_forgotten_after_five_minutes_or_when_there_are_too_many() -> None:
    now = 0.0
    work, once = Work(), Once[int](lambda: now, most=2)
    await do(once, "a", work.act())
    now = KEPT_SECONDS - 1
    assert await do(once, "a", work.act()) == 1
    now = KEPT_SECONDS
    assert await do(once, "a", work.act()) == 2
    await do(once, "b", work.act())
    await do(once, "c", work.act())
    assert await do(once, "c", work.act()) == 4
    assert await do(once, "a", work.act()) == 5
