"""The offsets that a partition has."""

from typing import NamedTuple


class Bounds(NamedTuple):
    """Of one partition, as somebody sees it who reads committed, or whoever asks."""

    first: int
    """Of the first message that is kept, if there is one."""
    end: int
    """Of the next message to come; with ``read_committed`` all before it are decided (the last stable offset)."""
