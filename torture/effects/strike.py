"""What befalls a process at a step: ordered by a file, carried out by the first who gets there."""

import json
import os
import random
import signal
import threading
import time
from collections import Counter
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

_FILE = "strike.json"
_UNDER_WAY_SECONDS = 0.008
"""About as long as a broker takes to store an offset or to end a transaction."""
_MOST_HELD_SECONDS = 60.0
_HELD_LOOK_SECONDS = 0.0005


class Deed(StrEnum):
    """What happens to it."""

    KILLED = "killed"
    STOPPED = "stopped"
    """SIGSTOP."""
    HELD = "held"
    """The one thread waits until it is released; in the meantime something is done to what it is about to use."""
    FAILS = "fails"
    """It gets an exception, as from a driver whose connection is gone."""


class LostAnswerError(Exception):
    """Whether it was done is not known: nobody has answered."""


@dataclass(frozen=True)
class Strike:
    """What is to happen to the process that comes to a step."""

    step: StrEnum
    number: int
    """Of the strike: none is carried out twice."""
    after: int = 1
    """How often a consumer comes there before."""
    who: str = ""
    """Only those of this name; empty: any."""
    deed: Deed = Deed.KILLED


def give(folder: Path, strike: Strike) -> None:
    """Order it; there is one at a time."""
    draft = folder / f"{_FILE}.draft"
    draft.write_text(json.dumps(asdict(strike)), encoding="utf-8")
    draft.rename(folder / _FILE)


def struck(folder: Path, strike: Strike) -> int | None:
    """Process id of who has carried it out; None: nobody yet."""
    found = list(folder.glob(f"{_FILE}.{strike.number}-*"))
    return int(found[0].name.rpartition("-")[2]) if found else None


def release(folder: Path, strike: Strike) -> None:
    """Let go on whom it holds."""
    _released(folder, strike).touch()


def withdraw(folder: Path) -> None:
    """Take back what nobody has carried out."""
    (folder / _FILE).unlink(missing_ok=True)


class Watch:
    """In a consumer: told of each step, it carries out the strike for that step, if there is one. From any thread."""

    def __init__(self, folder: Path, name: str, whole: AbstractContextManager[Any] | None = None) -> None:
        """``whole``: held when it is stopped, so that what others would wait for is not under way then."""
        self._folder = folder
        self._name = name
        self._whole = whole or nullcontext()
        self._lock = threading.Lock()
        self._came: Counter[int] = Counter()
        self.closing = False
        """The consumer was told to end."""

    def __call__(self, step: StrEnum) -> None:
        """It is there."""
        strike = self._claimed(step)
        if strike is not None:
            self._carry_out(strike)

    def under_way(self, step: StrEnum) -> None:
        """It begins what takes a moment, in which it is to be struck."""
        strike = self._claimed(step)
        if strike is None:
            return
        if strike.deed in {Deed.HELD, Deed.FAILS}:  # who holds it strikes as it goes on
            self._carry_out(strike)
            return
        seconds = random.uniform(0, _UNDER_WAY_SECONDS)  # noqa: S311  (dice, no secret)
        threading.Timer(seconds, self._carry_out, [strike]).start()

    def _claimed(self, step: StrEnum) -> Strike | None:
        try:
            told = json.loads((self._folder / _FILE).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        strike = Strike(**told)
        if strike.step != step or strike.who not in {"", self._name}:
            return None
        with self._lock:
            self._came[strike.number] += 1
            if self._came[strike.number] < strike.after:
                return None
        with suppress(FileNotFoundError):  # somebody else was quicker
            (self._folder / _FILE).rename(self._folder / f"{_FILE}.{strike.number}-{os.getpid()}")
            return strike
        return None

    def _carry_out(self, strike: Strike) -> None:
        if strike.deed == Deed.FAILS:
            raise LostAnswerError(f"nobody has answered {strike.step}")
        if strike.deed == Deed.HELD:
            until, released = time.monotonic() + _MOST_HELD_SECONDS, _released(self._folder, strike)
            while not released.exists() and time.monotonic() < until:
                time.sleep(_HELD_LOOK_SECONDS)
            return
        if strike.deed != Deed.STOPPED:
            os.kill(os.getpid(), signal.SIGKILL)
        with self._whole:
            os.kill(os.getpid(), signal.SIGSTOP)


def _released(folder: Path, strike: Strike) -> Path:
    return folder / f"released-{strike.number}"
