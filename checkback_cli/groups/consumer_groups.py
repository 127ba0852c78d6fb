"""The consumer groups of ``checkback groups``: how far each is behind, what it tries again, what it has given up on."""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, NamedTuple

import typer

from checkback.consumer.listener import TopicPartition
from checkback.consumer.resetting.all_groups import AllGroups, KnownGroup
from checkback.consumer.resetting.reset_plan import PartitionOffsets
from checkback.consumer.retries.dead_letter_topic import LetterCount
from checkback.wire.groups import is_own
from checkback_cli.groups.dead_letters import count_letters, said_count
from checkback_cli.terminal.progress import progress
from conf import KafkaSettings

NAMES = ("group", "topics", "members", "lag", "no offset", "to be retried", "dead letters", "skipped")

Delayed = Callable[[str], int | None]
"""How many messages of a producer group wait in the job; None: nobody knows."""

_LOOK_SECONDS = 5.0
_MOST_NAMED = 5
_UNKNOWN, _NONE = "?", "-"


class TopicLag(NamedTuple):
    """A topic that a group reads."""

    topic: str
    partitions: int
    """0: its members want it, and Kafka has no such topic."""
    lag: int | None
    """Offsets behind the end, of the partitions with a stored offset; None: there is none."""
    without_offset: int
    """Partitions of which the group has stored nothing: how much it will read there, nobody knows."""


class ConsumerRow(NamedTuple):
    """A consumer group, as far as it is known."""

    group: str
    topics: tuple[TopicLag, ...]
    """Without its retry topic."""
    members: int | None
    """None: this client cannot ask."""
    retry_lag: int | None = None
    """What has come back to be tried again, and waits for a consumer; None: it has no retry topic, or no offset."""
    delayed: int | None = None
    """What waits for its time in the job; None: it has no retry topic, or no job has said so."""
    dead: LetterCount | None = None
    """None: it has no topic of dead letters."""
    skipped: int = 0
    """Offsets that were gone past without handling what was there, since its offsets were last set by hand."""

    @property
    def lag(self) -> int | None:
        """Of all topics; None where nothing is stored at all."""
        known = [one.lag for one in self.topics if one.lag is not None]
        return sum(known) if known else None

    @property
    def without_offset(self) -> int:
        """Partitions, of all topics."""
        return sum(one.without_offset for one in self.topics)


def read_consumers(
    kafka: KafkaSettings, only: str | None, delayed: Delayed
) -> tuple[list[ConsumerRow], frozenset[str]]:
    """The groups, by name; and the topics of which it could not be told whether Checkback delivers to them.

    Args:
        kafka: where.
        only: this group; None: all.
        delayed: asked with the group's name: for its retries a consumer group is a producer group.

    Raises:
        KafkaUnreachableError: no Kafka answers.
    """
    topics = kafka.topics
    with AllGroups(kafka.bootstrap_servers, kafka.python_client) as asked:
        there = asked.topics()
        retrying, dying = (named_in(there, topic("")) for topic in (topics.retry, topics.dead))
        ours = retrying | dying

        def wanted(name: str) -> bool:
            return only in {None, name} and (name in ours or not is_own(name, topics))

        known = {one.name: one for one in asked.known(wanted)}
        for name in filter(wanted, ours - known.keys()):  # Kafka has forgotten its offsets, and nobody is there
            known[name] = KnownGroup(name, 0, frozenset(), {}, {})
        ends = asked.ends({topic for one in known.values() for topic in one.topics})
        others = {topic for name, one in known.items() if name not in ours for topic in one.topics}
        others -= {*topics.all(), *(topics.retry(name) for name in ours), *(topics.dead(name) for name in ours)}
        delivered, unknown = asked.delivered_to({at: ends[at] for at in ends if at.topic in others}, _LOOK_SECONDS)
        shown = [one for _, one in sorted(known.items()) if one.name in ours or one.topics & delivered]
        with progress() as tell:
            letters = count_letters(asked.consumer, topics, [one.name for one in shown if one.name in dying], tell)
    dead = {name: counted for name, counted, _ in letters}
    rows = []
    for one in shown:
        retry = topics.retry(one.name) if one.name in retrying else None
        read = one.topics - {retry} if one.name in ours else one.topics & delivered
        row = ConsumerRow(one.name, _lags(read, one.stored, ends), one.members, dead=dead.get(one.name))
        row = row._replace(skipped=sum(one.skipped.values()))
        if retry is not None:
            row = row._replace(retry_lag=lag_of(retry, one.stored, ends).lag, delayed=delayed(one.name))
        rows.append(row)
    return rows, unknown


def _lags(
    topics: Collection[str], stored: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
) -> tuple[TopicLag, ...]:
    return tuple(lag_of(topic, stored, ends) for topic in sorted(topics))


def named_in(topics: Iterable[str], prefix: str) -> frozenset[str]:
    """The groups after which topics with such a prefix are named."""
    return frozenset(name.removeprefix(prefix) for name in topics if name.startswith(prefix) and name != prefix)


def lag_of(topic: str, stored: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]) -> TopicLag:
    """How far a group with these offsets is behind the ends of a topic."""
    offsets = [PartitionOffsets(at.partition, 0, end, stored.get(at)) for at, end in ends.items() if at.topic == topic]
    lags = [one.lag for one in offsets if one.lag is not None]
    return TopicLag(topic, len(offsets), sum(lags) if lags else None, len(offsets) - len(lags))


def cells(row: ConsumerRow) -> tuple[str, ...]:
    """A row of the table."""
    return (
        row.group,
        _some([one.topic if one.partitions else f"{one.topic} (no such topic)" for one in row.topics]) or _NONE,
        _UNKNOWN if row.members is None else str(row.members),
        _NONE if row.lag is None else str(row.lag),
        str(row.without_offset),
        _to_be_retried(row),
        _NONE if row.dead is None else said_count(row.dead),
        str(row.skipped),
    )


def as_object(row: ConsumerRow) -> dict[str, Any]:
    """A row for programs; what is not known is null."""
    dead = (None, None) if row.dead is None else (row.dead.letters, row.dead.offsets)
    return {
        "kind": "consumer",
        "group": row.group,
        "topics": [one._asdict() for one in row.topics],
        "members": row.members,
        "lag": row.lag,
        "without_offset": row.without_offset,
        "retry_lag": row.retry_lag,
        "delayed": row.delayed,
        "dead_letters": dead[0],
        "dead_letters_at_most": dead[1],
        "skipped": row.skipped,
    }


def tell_unknown(topics: Collection[str]) -> None:
    """Say on standard error which groups may be missing."""
    if topics:
        typer.echo(
            f"Could not be looked at: {_some(sorted(topics))}. Groups that read only such topics are not shown.",
            err=True,
        )


def _to_be_retried(row: ConsumerRow) -> str:
    if row.retry_lag is None and row.delayed is None:
        return _NONE
    now, later = (_UNKNOWN if number is None else str(number) for number in (row.retry_lag, row.delayed))
    return f"{now} now, {later} in the job"


def _some(names: Collection[str]) -> str:
    """Names, not too many."""
    listed = list(names)
    more = f" and {len(listed) - _MOST_NAMED} more" if len(listed) > _MOST_NAMED else ""
    return ", ".join(listed[:_MOST_NAMED]) + more
