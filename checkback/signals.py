"""Stopping a command that runs until it is told to end."""

import logging
import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any

_LOGGER = logging.getLogger(__name__)


def stop_on_signals(within: float | None = None) -> threading.Event:
    """An event that Ctrl-C and SIGTERM set, instead of ending the process at once.

    If ``within`` is given, the process exits that many seconds after the first of them, even if something hangs: for a
    command that can do again what it has in hand.
    """
    stopping = threading.Event()

    def stop(*_: object) -> None:
        if within is not None and not stopping.is_set():
            timer = threading.Timer(within, _give_up, (within,))
            timer.daemon = True
            timer.start()
        stopping.set()

    _on_signals(stop)
    return stopping


def leave_on_signals() -> None:
    """Let Ctrl-C and SIGTERM end the process at once, in order: for a time in which there is nothing to finish."""
    _on_signals(lambda *_: _leave())


def _give_up(seconds: float) -> None:
    _LOGGER.warning("It has not stopped within %.0f s, and ends now: a start does again what was in hand.", seconds)
    _leave()


def _leave() -> None:
    sys.stdout.flush()
    os._exit(0)  # Spark's process ends when its standard input does


def _on_signals(handler: Callable[..., Any]) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, handler)
