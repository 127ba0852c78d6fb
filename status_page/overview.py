"""What the first page shows beside its four answers."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import groupby
from typing import NamedTuple

from checkback.operations.in_doubt import InDoubt
from checkback.wire.checks import SILENT, nobody_for
from checkback.wire.protocol import Action
from status_page.facts import MOST_GROUPS, GroupFacts, JobFacts
from status_page.transactions.index import Index, RowCount, RowFilter
from status_page.transactions.schema import STATUS
from status_page.words import NO_ENDPOINT, why_in_doubt

_MOST = 8


class Stuck(NamedTuple):
    """Transactions of one group and topic that are in doubt."""

    group: str
    topic: str
    number: int
    oldest_ms: int
    why: str
    """Of the oldest."""
    unasked: bool = False
    """Whether nobody of the group can be asked: somebody has to do something."""


def stuck(index: Index, facts: JobFacts, most: int = _MOST) -> tuple[list[Stuck], int]:
    """Where most are in doubt, and in how many further groups and topics some are."""
    numbers = sorted(_numbers(index.tallies(STATUS.name)), key=lambda one: (-one[0], *one[1:]))
    groups = by_name(facts)
    found = []
    for number, group, topic in numbers[:most]:
        oldest = next(iter(index.in_doubt(RowFilter(group, topic), 1)), None)
        if oldest is not None:
            why = why_in_doubt(oldest, groups[group])
            nobody = bool(groups[group].unasked) or _nobody_for_its_topic(oldest)
            found.append(Stuck(group, topic, number, oldest.ingested_ms, why, nobody))
    return found, max(0, len(numbers) - most)


def _nobody_for_its_topic(row: InDoubt) -> bool:
    """Whether the last check found nobody, though the group may have endpoints for other topics."""
    return row.last_answer == Action.UNREACHABLE and nobody_for(row.group, row.topic) in row.remark


class GroupsByName(dict[str, GroupFacts]):
    """By name.

    Of one that the job does not name it is known all the same whether it has an endpoint, and that it has nothing once
    that has been counted.
    """

    def __init__(self, facts: JobFacts) -> None:
        super().__init__((group.group, group) for group in facts.groups)
        self._unasked = NO_ENDPOINT if facts.endpoints_known else ""
        self._nothing = 0 if facts.counted and len(facts.groups) < MOST_GROUPS else None

    def __missing__(self, name: str) -> GroupFacts:
        nothing = self._nothing
        return GroupFacts(name, nothing, nothing, nothing, nothing, unasked=self._unasked)


def while_nobody_can_be_heard(facts: JobFacts) -> JobFacts:
    """The same, while Kafka does not answer: it has no heartbeats then, and silence is not an endpoint's fault."""

    def silent(group: GroupFacts) -> bool:
        return bool(group.endpoints) and all(one.reason.startswith(SILENT) for one in group.endpoints)

    return replace(facts, groups=tuple(replace(one, unasked="") if silent(one) else one for one in facts.groups))


def by_name(facts: JobFacts) -> GroupsByName:
    """The groups by name."""
    return GroupsByName(facts)


def all_groups(facts: JobFacts, in_doubt: Mapping[str, int]) -> tuple[GroupFacts, ...]:
    """Those that the job tells of, and others that have transactions in doubt."""
    groups = by_name(facts)
    return (*facts.groups, *(groups[name] for name in sorted(in_doubt) if name not in groups and in_doubt[name]))


def unasked(facts: JobFacts, in_doubt: Mapping[str, int]) -> dict[str, str]:
    """Groups with transactions in doubt of which nobody can be asked, and why; those with most first."""
    groups = by_name(facts)
    names = sorted((name for name, number in in_doubt.items() if number), key=lambda name: (-in_doubt[name], name))
    return {name: groups[name].unasked for name in names if groups[name].unasked}


def unasked_also(known: Mapping[str, str], stuck: Iterable[Stuck]) -> dict[str, str]:
    """These, and groups of which nobody answers for one of the topics where most are in doubt."""
    more = {one.group: f"for topic {one.topic} no endpoint" for one in stuck if one.unasked and one.group not in known}
    return {**known, **more}


def in_doubt_by_group(tallies: Iterable[RowCount]) -> dict[str, int]:
    """How many are in doubt in each group."""
    found: dict[str, int] = {}
    for tally in tallies:
        found[tally.group] = found.get(tally.group, 0) + tally.number
    return found


def _numbers(tallies: Iterable[RowCount]) -> Iterable[tuple[int, str, str]]:
    ordered = sorted(tallies, key=lambda one: (one.group, one.topic))
    for (group, topic), same in groupby(ordered, key=lambda one: (one.group, one.topic)):
        yield sum(one.number for one in same), group, topic
