"""How many state partitions a checkpoint has: its facts say what it was begun with, the name of an empty file what
``checkback grow`` gave it since. There is nothing in such a file that could be torn, and none is ever written over.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from streaming.batch.numbered_files import NumberedFiles

PARTITIONS, GROWING = NumberedFiles("checkback-partitions-"), NumberedFiles("checkback-growing-")


def growing_to(names: Iterable[str]) -> int | None:
    """How many state partitions a folder with these files is about to get; None: it is not growing."""
    return max(GROWING.numbers(names), default=None)


def as_grown(facts: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """A checkpoint's facts, with the state partitions that it has by now; ``names`` are its files."""
    names = list(names)
    given, growing = PARTITIONS.numbers(names), growing_to(names)
    if not given:
        return dict(facts)
    # cut off between the last two steps of growing there are two
    return {**facts, "state_partitions": growing if growing in given else max(given)}


def half_grown(folder: str, partitions: int) -> str:
    """What to say of a folder that is growing."""
    return f"'checkback grow --state-partitions {partitions}' was cut off on {folder}"


def ways_out(partitions: int, before: int) -> str:
    """What to do with it; ``before``: how many it has meanwhile."""
    if before == partitions:
        return "type it again"
    return f"type it again, or 'checkback grow --state-partitions {before}', which leaves the checkpoint as it was"
