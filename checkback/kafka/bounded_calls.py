"""Calls of librdkafka that may never come back: 2.16 loses some of them where it loses the group's coordinator."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")


def in_thread(call: Callable[[], T]) -> "Future[T]":
    """Call it in a thread of its own, which does not keep the program from ending: who waits for it may give it up."""
    done: Future[T] = Future()

    def run() -> None:
        try:
            done.set_result(call())
        except BaseException as error:  # noqa: BLE001  (whoever waits gets it)
            # without its traceback, which would be in a circle with this frame: Spark's workers collect no garbage
            done.set_exception(error.with_traceback(None))

    threading.Thread(target=run, name="checkback-call", daemon=True).start()
    return done


def within(seconds: float, call: Callable[[], T]) -> T:
    """Call it, and wait no longer than that.

    Raises:
        TimeoutError: it has not come back, and perhaps never will.
    """
    return in_thread(call).result(seconds)
