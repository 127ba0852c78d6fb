"""What ``checkback doctor`` finds."""

from enum import StrEnum
from typing import NamedTuple


class Level(StrEnum):
    """How bad it is."""

    OK = "ok"
    WARNING = "warning"
    """It may matter, or could not be looked at."""
    WRONG = "wrong"
    """The job does not start with it, or does harm, or messages wait."""


class Finding(NamedTuple):
    """One line."""

    level: Level
    about: str
    said: str
    todo: str = ""
    """What to do; empty where there is nothing."""


def ok(about: str, said: str) -> Finding:
    """It is as it should be."""
    return Finding(Level.OK, about, said)


def warning(about: str, said: str, todo: str) -> Finding:
    """It may matter."""
    return Finding(Level.WARNING, about, said, todo)


def wrong(about: str, said: str, todo: str) -> Finding:
    """It is not as a job needs it."""
    return Finding(Level.WRONG, about, said, todo)
