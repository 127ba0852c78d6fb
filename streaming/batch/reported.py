"""What a task tells the driver beside plain numbers, as JSON on its way."""

import json
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from state import OpenOf, Tallies, Tally
from streaming.batch.batch import OpenBySegment


def tallies_to_json(tallies: Tallies) -> str:
    """For :func:`tallies_of`."""
    return json.dumps([[*tally, number] for tally, number in tallies.items()])


def tallies_of(texts: Iterable[str]) -> Tallies:
    """The sum of what :func:`tallies_to_json` gave."""
    summed = Tallies()
    for text in texts:
        for name, group, size, number in json.loads(text):
            summed[Tally(name, group, size)] += number
    return summed


def open_to_json(still_open: OpenBySegment) -> str:
    """For :func:`open_by_segment`."""
    return json.dumps([[*place, [[*key, *one] for key, one in pairs.items()]] for place, pairs in still_open.items()])


def open_by_segment(texts: Iterable[str]) -> OpenBySegment:
    """All segments of what :func:`open_to_json` gave; each is in one of them."""
    return {
        (partition, offset): {(group, topic): OpenOf(*numbers) for group, topic, *numbers in pairs}
        for text in texts
        for partition, offset, pairs in json.loads(text)
    }


class HeldUntil(NamedTuple):
    """Committed messages that their topic did not take, and that are tried again at the same time."""

    topic: str
    until_s: int
    """Of the job's time, in s since 1970, rounded down."""
    reason: str = ""
    """Why; empty where they have been tried again."""


HeldChanges = Counter[HeldUntil]
"""How many messages: more than 0 of those that are held now, less of those that have been tried again."""


def held_to_json(changes: HeldChanges) -> str:
    """For :func:`held_changes`."""
    return json.dumps([[*held, number] for held, number in changes.items()])


def held_changes(texts: Iterable[str]) -> HeldChanges:
    """The sum of what :func:`held_to_json` gave."""
    summed = HeldChanges()
    for text in texts:
        for topic, until_s, reason, number in json.loads(text):
            summed[HeldUntil(topic, until_s, reason)] += number
    return summed
