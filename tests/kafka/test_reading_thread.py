"""A thread that reads for one loop, and calls that do not come back."""

import asyncio
from collections.abc import Callable, Coroutine
from functools import wraps
from threading import Event
from time import monotonic
from typing import Any

import pytest

from checkback.kafka.kafka_python.reading import ReadingThread
from checkback.kafka.reaching import IDLE_MS


def in_loop(test: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    """The test as a function that pytest calls."""

    @wraps(test)
    def run() -> None:
        asyncio.run(test())

    return run


class Consumer:
    closed = False

    def close(self) -> None:
        self.closed = True


@in_loop
async def test_calls_are_made_in_turn_with_one_consumer_which_is_closed() -> None:
    made: list[Consumer] = []

    def connect() -> Consumer:
        made.append(Consumer())
        return made[-1]

    thread = ReadingThread("reading", connect)
    seen: list[Any] = await asyncio.gather(*(thread.run(lambda consumer: consumer) for _ in range(3)))
    assert seen == made * 3
    thread.close()
    assert [one.closed for one in made] == [True]


@in_loop
async def test_an_error_is_the_callers_and_the_next_call_is_made() -> None:
    tries = iter([OSError("away"), None])

    def connect() -> Consumer:
        if (error := next(tries)) is not None:
            raise error
        return Consumer()

    thread = ReadingThread("reading", connect)
    with pytest.raises(OSError, match="away"):
        await thread.run(id)
    assert await thread.run(lambda _: 7) == 7
    thread.close()


@in_loop
async def test_nobody_waits_for_a_call_that_does_not_come_back() -> None:
    forever, began, later = Event(), Event(), Event()

    def hang(_: Consumer) -> None:
        began.set()
        forever.wait(60)

    thread = ReadingThread("reading", Consumer)
    hanging = asyncio.ensure_future(thread.run(hang))
    assert await asyncio.to_thread(began.wait, 60)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await thread.run(lambda _: later.set())
    before = monotonic()
    thread.close()
    assert monotonic() - before < 10
    assert not hanging.done()
    forever.set()
    await hanging
    thread.close()
    assert not later.is_set(), "it was given up before its turn"


@in_loop
async def test_after_a_long_pause_there_is_another_consumer() -> None:
    now = 0.0
    thread = ReadingThread("reading", Consumer, lambda: now)
    first = await thread.run(lambda consumer: consumer)
    now += IDLE_MS / 1000
    assert await thread.run(lambda consumer: consumer) is first
    now += IDLE_MS / 1000 + 1
    assert await thread.run(lambda consumer: consumer) is not first
    assert first.closed
    thread.close()


def test_what_was_never_used_is_closed_at_once() -> None:
    ReadingThread("reading", Consumer).close()
