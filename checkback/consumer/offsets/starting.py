"""Where a group begins in a partition, and where it goes on when its offset is gone. No Kafka, no clock."""

from collections.abc import Collection, Mapping
from typing import NamedTuple

from checkback.consumer.listener import TopicPartition
from checkback.consumer.offsets.metadata import LastingFacts, Stored, decode, encode, has_begun
from checkback.consumer.settings import StartAt, WhenOffsetIsGone
from checkback.exceptions import ConfigurationError, OffsetGoneError
from checkback.kafka.bounds import Bounds


class Start(NamedTuple):
    """Where to begin, and what to say of it."""

    stored: Stored
    said: str
    skipped: int = 0
    """Offsets gone past without handling what was there; ``stored`` has these, and those of before."""


def start(
    partition: TopicPartition, start_at: StartAt, limits: Bounds, at_time: int | None = None, *, added: bool = False
) -> Start:
    """Where a group begins that has stored nothing for a partition.

    Args:
        partition: which.
        start_at: the setting.
        limits: of the partition.
        at_time: offset of the first message of the time that ``StartAt.TIMESTAMP`` means.
        added: it was made after the group had begun to read its topic, so that all its messages are new.
    """
    if added:
        offset, why = limits.first, "it was added to a topic that the group reads"
    elif start_at is StartAt.FIRST:
        offset, why = limits.first, "start_at is first"
    elif start_at is StartAt.TIMESTAMP and at_time is not None:
        offset, why = at_time, "start_at is timestamp"
    else:
        offset, why = limits.end, "start_at is last"
    said = (
        f"{partition}: the group has no stored offset; it begins at {offset} of {limits.first} to {limits.end} ({why})"
    )
    return Start(Stored(offset), said)


def begun_before(
    topics: Collection[str], retry_topic: str, stored: Mapping[TopicPartition, Stored], *, has_run: bool
) -> frozenset[str]:
    """Topics that the group has begun to read before, though Kafka may have forgotten its offsets.

    Args:
        topics: that are wanted now.
        retry_topic: the group's; empty: it has none, and its offsets are in a file, which forgets nothing.
        stored: what is stored for all partitions of these.
        has_run: the group has what is made once it has stored offsets.
    """
    with_offsets = frozenset(one.topic for one in stored)
    if not retry_topic:
        return with_offsets
    noted = [found for one, found in stored.items() if one.topic == retry_topic]
    said = {topic: {has_begun(found, topic) for found in noted} for topic in topics}
    if any(False in one or True in one for one in said.values()):
        return with_offsets | {topic for topic, one in said.items() if True in one}
    return frozenset(topics) if stored or has_run else with_offsets  # no word of topics: all that it may have read


def forgotten(partition: TopicPartition, limits: Bounds, setting: WhenOffsetIsGone) -> Start:
    """Where a group goes on that had stored an offset, and has none.

    Raises:
        OffsetGoneError: the setting is to stop.
    """
    found = (
        f"{partition}: the group has read it before, and its stored offset is gone: either the topic was made again, "
        f"or Kafka forgot the offset since no consumer ran for longer than offsets.retention.minutes"
    )
    return _elsewhere(found, limits, setting)


def go_on(
    partition: TopicPartition, before: Stored, limits: Bounds, setting: WhenOffsetIsGone, *, made_again: bool = False
) -> Start:
    """Where a group goes on whose offset has no message.

    Args:
        partition: which.
        before: how far it was, and what was done behind that.
        limits: of the partition.
        setting: the consumer's.
        made_again: it was as far in another topic of this name, or in what has been cut off from it.

    Raises:
        OffsetGoneError: the setting is to stop.
    """
    offset, deleted, note = before.offset, 0, decode(before)
    if made_again:
        found = f"{partition}: what was read before offset {offset} is not there now: the topic was made again, or cut"
    elif offset < limits.first:
        deleted = limits.first - offset - sum(len(range(one.start, min(one.stop, limits.first))) for one in note.done)
        found = f"{partition}: offset {offset} is gone: retention has deleted {deleted} offsets unread"
    elif offset > limits.end:
        found = f"{partition}: there is no offset {offset} yet: was the topic made again?"
    else:
        found = (
            f"{partition}: what was read is not what lies before offset {offset} now: the topic was made again, or cut"
        )
    return _elsewhere(found, limits, setting, deleted, note.kept)


def _elsewhere(
    found: str,
    limits: Bounds,
    setting: WhenOffsetIsGone,
    deleted: int = 0,
    kept: LastingFacts = LastingFacts(),  # noqa: B008  (a frozen one)
) -> Start:
    """``deleted``: offsets that it had not handled; ``kept``: what was known before."""
    found += f" (it has {limits.first} to {limits.end}; when_offset_is_gone is {setting})."
    if setting is WhenOffsetIsGone.STOP:
        raise OffsetGoneError(
            f"{found} Set the group's offsets ('checkback offsets reset'), or choose earliest or latest."
        )
    new = limits.first if setting is WhenOffsetIsGone.EARLIEST else limits.end
    skipped = deleted + new - limits.first
    if skipped:
        found += f" {skipped} offsets are skipped ('checkback groups' shows them until somebody sets the offsets)."
    stored = encode(new, (), kept=kept._replace(skipped=kept.skipped + skipped))
    return Start(stored, f"{found} The group goes on at {new}.", skipped)


def refuse_outside(offsets: Mapping[TopicPartition, int], limits: Mapping[TopicPartition, Bounds]) -> None:
    """Raises ConfigurationError where somebody wants to go on where there is nothing, and never was."""
    for partition, offset in offsets.items():
        first, end = limits[partition]
        if not first <= offset <= end:
            raise ConfigurationError(
                f"{partition} has offsets {first} to {end}, so nothing was set to {offset}: take one of these, or "
                f"{end} to go on with what comes next."
            )
