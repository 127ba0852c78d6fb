"""Calls the listener, and hears what it says."""

import asyncio
import inspect
import logging
import os
from collections.abc import Callable
from time import monotonic
from typing import Any

from checkback.consumer.listener import ConsumeResult, UnreadableMessage
from checkback.consumer.offsets.work import Parcel
from checkback.exceptions import ConfigurationError
from checkback.forking import end_child, in_child_of

_LOGGER = logging.getLogger(__name__)
_SAID_AGAIN_SECONDS = 1.0
_MOST_SAID = 200

Ended = Callable[[Parcel, bool], None]


class Judging:
    """``ended`` is told of each parcel whether it is done with. A listener gets lists when ``several``."""

    def __init__(self, listener: Callable[[Any], Any], ended: Ended, *, several: bool) -> None:
        if not callable(listener):
            raise ConfigurationError("A listener is a function of a message that returns a ConsumeResult.")
        self._listener = listener
        self._ended = ended
        self._several = several
        self._next_saying = 0.0
        self._unsaid = 0

    def call(self, parcel: Parcel) -> None:
        """Call a listener that is a function. Never raises."""
        if not parcel.work.begin(parcel, monotonic()) or self._refused(parcel):
            return
        process = os.getpid()
        try:
            result = self._listener(parcel.messages if self._several else parcel.messages[0])
        except BaseException as error:  # noqa: BLE001  (whatever it raises, sys.exit() in a thread ends nothing)
            self._fail(parcel, error, process)
        else:
            self._hear(parcel, result, process)

    async def wait_for(self, parcel: Parcel) -> None:
        """Call a listener that is a coroutine function. Raises that it was cancelled, or that the program is to end."""
        if not parcel.work.begin(parcel, monotonic()) or self._refused(parcel):
            return
        process = os.getpid()
        try:
            called = self._listener(parcel.messages if self._several else parcel.messages[0])
            result = await called if inspect.isawaitable(called) else called
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            self._fail(parcel, error, process)  # something that it has waited for was cancelled
        except Exception as error:  # noqa: BLE001  (whatever the application raises)
            self._fail(parcel, error, process)
        except BaseException as error:
            self._fail(parcel, error, process)
            raise
        else:
            self._hear(parcel, result, process)

    def _refused(self, parcel: Parcel) -> bool:
        """Whether it is nothing for a listener; such a message comes alone."""
        if type(parcel.messages[0]) is not UnreadableMessage:
            return False
        self._ended(parcel, False)  # noqa: FBT003  (not done with)
        return True

    def _hear(self, parcel: Parcel, result: object, process: int) -> None:
        if in_child_of(process):  # the listener has forked, and this is the child: the parent hears of the message
            end_child(None)
        if isinstance(result, ConsumeResult):
            parcel.failure = ""
            self._ended(parcel, result is ConsumeResult.SUCCESS)
            return
        if inspect.iscoroutine(result):
            result.close()
            result = "a coroutine: an asynchronous listener is for AsyncPushConsumer"
        told = "return ConsumeResult.SUCCESS when the message is done, and LATER when it is to come again"
        self._fail(parcel, TypeError(f"it returned {result!r:.100}; {told}"), process)

    def _fail(self, parcel: Parcel, error: BaseException, process: int) -> None:
        if in_child_of(process):
            end_child(error)
        parcel.failure = f"{type(error).__name__}: {_one_line(error)}"[:_MOST_SAID]
        self._say(parcel, error)
        self._ended(parcel, False)  # noqa: FBT003  (not done with)

    def _say(self, parcel: Parcel, error: BaseException) -> None:
        """One a second at most: where all messages fail, the log does not help by being long."""
        now = monotonic()
        if now < self._next_saying:
            self._unsaid += 1
            return
        message = parcel.messages[0]
        unsaid, self._unsaid, self._next_saying = self._unsaid, 0, now + _SAID_AGAIN_SECONDS
        _LOGGER.warning(
            "The listener failed with %s (%s-%s %s), tried %s times before%s",
            *(message.id, message.topic, message.partition, message.offset, message.tries),
            f"; {unsaid} more failed since the last line" if unsaid else "",
            exc_info=error,
        )


def asynchronous(listener: object) -> bool:
    """Whether it is known to be a coroutine function, or an object that is called like one."""
    while hasattr(listener, "func"):  # functools.partial
        listener = listener.func
    return inspect.iscoroutinefunction(listener) or inspect.iscoroutinefunction(getattr(listener, "__call__", None))  # noqa: B004  (not whether, but what)


def _one_line(error: BaseException) -> str:
    """What it says, for a header: no control characters, however strange the error."""
    try:
        said = str(error)
    except Exception:  # noqa: BLE001  (an application's error may fail to say what it is)
        return "it cannot say what"
    return "".join(one if one.isprintable() else " " for one in said[:_MOST_SAID])
