"""What the first page shows beside its four answers."""

from collections.abc import Iterable
from itertools import groupby
from typing import NamedTuple

from status_page.facts import GroupFacts, JobFacts
from status_page.index import Index, Tally, Wanted
from status_page.schema import STATUS
from status_page.words import why_in_doubt

_MOST = 8


class Stuck(NamedTuple):
    """Transactions of one group and topic that are in doubt."""

    group: str
    topic: str
    number: int
    oldest_ms: int
    why: str
    """Of the oldest."""


def stuck(index: Index, facts: JobFacts, now_ms: int, most: int = _MOST) -> tuple[list[Stuck], int]:
    """Where most are in doubt, and in how many further groups and topics some are."""
    numbers = sorted(_numbers(index.tallies(STATUS.name)), key=lambda one: (-one[0], *one[1:]))
    groups = by_name(facts)
    found = []
    for number, group, topic in numbers[:most]:
        oldest = next(iter(index.in_doubt(Wanted(group, topic), 1)), None)
        if oldest is not None:
            why = why_in_doubt(oldest, groups.get(group), now_ms)
            found.append(Stuck(group, topic, number, oldest.ingested_ms, why))
    return found, max(0, len(numbers) - most)


def by_name(facts: JobFacts) -> dict[str, GroupFacts]:
    """The groups by name."""
    return {group.group: group for group in facts.groups}


def in_doubt_by_group(tallies: Iterable[Tally]) -> dict[str, int]:
    """How many are in doubt in each group."""
    found: dict[str, int] = {}
    for tally in tallies:
        found[tally.group] = found.get(tally.group, 0) + tally.number
    return found


def _numbers(tallies: Iterable[Tally]) -> Iterable[tuple[int, str, str]]:
    ordered = sorted(tallies, key=lambda one: (one.group, one.topic))
    for (group, topic), same in groupby(ordered, key=lambda one: (one.group, one.topic)):
        yield sum(one.number for one in same), group, topic
