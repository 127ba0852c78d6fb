"""What the first page shows beside its four answers."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from checkback.wire.checks import SILENT
from status_page.facts import MOST_GROUPS, GroupFacts, JobFacts, TopicInDoubt, topics_in_doubt
from status_page.transactions.index import Index, RowFilter
from status_page.transactions.schema import PARKED, STATUS
from status_page.words import NO_ENDPOINT, why_in_doubt

_MOST = 8


class Stuck(NamedTuple):
    """Transactions of one group and topic that are in doubt."""

    of: TopicInDoubt
    oldest_ms: int
    why: str
    """Of the oldest."""


def in_doubt_by_topic(index: Index, facts: JobFacts) -> list[TopicInDoubt]:
    """Where some are in doubt, those with most first, and why nobody can be asked."""
    counts = Counter[tuple[str, str]]()
    for tally in index.tallies(STATUS.name):
        counts[tally.group, tally.topic] += tally.number
    return topics_in_doubt(counts, GroupsByName(facts))


def stuck(
    index: Index, facts: JobFacts, in_doubt: Sequence[TopicInDoubt], most: int = _MOST
) -> tuple[list[Stuck], int]:
    """Where most are in doubt, and in how many further groups and topics some are."""
    groups = GroupsByName(facts)
    found = []
    for one in in_doubt[:most]:
        oldest = next(iter(index.in_doubt(RowFilter(one.group, one.topic), 1)), None)
        if oldest is not None:
            found.append(Stuck(one, oldest.ingested_ms, why_in_doubt(oldest, groups[one.group])))
    return found, max(0, len(in_doubt) - most)


class GroupsByName(dict[str, GroupFacts]):
    """By name.

    Of one that the job does not name it is known all the same that it has no endpoint, and that it has nothing once
    that has been counted; but not where the job has more groups than it names.
    """

    def __init__(self, facts: JobFacts) -> None:
        super().__init__((group.group, group) for group in facts.groups)
        all_named = len(facts.groups) < MOST_GROUPS
        self._unasked = facts.checks_stalled or (NO_ENDPOINT if facts.endpoints_known and all_named else "")
        self._nothing = 0 if facts.counted and all_named else None

    def __missing__(self, name: str) -> GroupFacts:
        nothing = self._nothing
        return GroupFacts(name, nothing, nothing, nothing, nothing, unasked=self._unasked)


def with_lists(facts: JobFacts, index: Index) -> JobFacts:
    """The same, with what complete lists say: how many transactions are in doubt, and how many messages are parked."""
    oldest = next(iter(index.in_doubt(limit=1)), None)
    parked = Counter[str]()
    for tally in index.tallies(PARKED.name):
        parked[tally.group] += tally.number
    return replace(
        facts,
        in_doubt=index.total(STATUS.name).number,
        in_doubt_oldest_ms=oldest and oldest.ingested_ms,
        parked=parked.total(),
        groups=tuple(replace(group, parked=parked[group.group]) for group in facts.groups),
    )


def while_nobody_can_be_heard(facts: JobFacts) -> JobFacts:
    """The same, while Kafka does not answer: it has no heartbeats then, and silence is not an endpoint's fault."""

    def silent(group: GroupFacts) -> bool:
        return bool(group.endpoints) and all(one.reason.startswith(SILENT) for one in group.endpoints)

    groups = (replace(one, unasked="" if silent(one) else one.unasked, answers_for=None) for one in facts.groups)
    return replace(facts, groups=tuple(groups))


def all_groups(facts: JobFacts, in_doubt: Mapping[str, int]) -> tuple[GroupFacts, ...]:
    """Those that the job tells of, and others that have transactions in doubt."""
    groups = GroupsByName(facts)
    return (*facts.groups, *(groups[name] for name in sorted(in_doubt) if name not in groups and in_doubt[name]))


def unasked(in_doubt: Iterable[TopicInDoubt]) -> dict[str, str]:
    """Groups with transactions in doubt about which nobody can be asked, and why, in this order."""
    found: dict[str, str] = {}
    for one in in_doubt:
        if one.unasked:
            found.setdefault(one.group, one.unasked)
    return found


def by_group(in_doubt: Iterable[TopicInDoubt]) -> dict[str, int]:
    """How many are in doubt in each group."""
    found = Counter[str]()
    for one in in_doubt:
        found[one.group] += one.number
    return found
