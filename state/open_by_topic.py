"""What is undecided in a segment, by producer group and real topic: how many, and since when the oldest."""

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from state.rows import Rows
from state.table import UNDECIDED, StateCodes

MOST_PAIRS = 64
"""Of a segment that are told apart; those with fewest open are put together, under no group and no topic."""


class OpenOf(NamedTuple):
    """Undecided transactions of one group for one real topic."""

    open: int
    oldest_ms: int
    """When the oldest of them was taken in."""

    def plus(self, other: "OpenOf") -> "OpenOf":
        """Both together."""
        return OpenOf(self.open + other.open, min(self.oldest_ms, other.oldest_ms))


OpenByTopic = dict[tuple[str, str], OpenOf]
"""By group and real topic."""

REST = ("", "")
"""Under which those are that are not told apart."""


def open_by_topic(messages: Rows, states: StateCodes) -> OpenByTopic:
    """What the messages kept in a segment come to; ``states[i]`` is that of message i."""
    undecided = np.flatnonzero((states == UNDECIDED[0]) | (states == UNDECIDED[1]))
    if not undecided.size:
        return {}
    whole = undecided.size == messages.count
    columns = [messages[name] if whole else messages[name][undecided] for name in ("group", "topic", "ingested_ms")]
    groups, topics = (pa.array(column, pa.string()).dictionary_encode() for column in columns[:2])
    width, ingested = len(topics.dictionary), columns[2]
    if len(groups.dictionary) == width == 1:  # most of all
        only = (groups.dictionary[0].as_py(), topics.dictionary[0].as_py())
        return {only: OpenOf(len(ingested), int(ingested.min()))}
    pairs, of = np.unique(groups.indices.to_numpy() * np.int64(width) + topics.indices.to_numpy(), return_inverse=True)
    numbers = np.bincount(of, minlength=len(pairs))
    oldest = np.full(len(pairs), np.iinfo(np.int64).max)
    np.minimum.at(oldest, of, ingested)
    found: OpenByTopic = {}
    for place in np.argsort(-numbers, kind="stable").tolist():
        group, topic = divmod(int(pairs[place]), width)
        key = (groups.dictionary[group].as_py(), topics.dictionary[topic].as_py())
        one = OpenOf(int(numbers[place]), int(oldest[place]))
        if len(found) >= MOST_PAIRS:
            key = REST
            one = one.plus(found[REST]) if REST in found else one
        found[key] = one
    return found
