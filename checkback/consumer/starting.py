"""Where a group begins in a partition, and where it goes on when its offset is gone. No Kafka, no clock."""

from typing import NamedTuple

from checkback.consumer.clients.base import Limits
from checkback.consumer.listener import Place
from checkback.consumer.offsets_metadata import Stored
from checkback.consumer.settings import StartAt, WhenOffsetIsGone
from checkback.exceptions import OffsetGoneError


class Start(NamedTuple):
    """Where to begin, and what to say of it."""

    stored: Stored
    said: str


def start(place: Place, start_at: StartAt, limits: Limits, at_time: int | None = None, *, added: bool = False) -> Start:
    """Where a group begins that has stored nothing for a partition.

    Args:
        place: the partition.
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
    said = f"{place}: the group has no stored offset; it begins at {offset} of {limits.first} to {limits.end} ({why})"
    return Start(Stored(offset), said)


def go_on(place: Place, offset: int, limits: Limits, setting: WhenOffsetIsGone) -> Start:
    """Where a group goes on whose offset has no message.

    Raises:
        OffsetGoneError: the setting is to stop.
    """
    if offset < limits.first:
        found = f"{place}: offset {offset} is gone: retention has deleted {limits.first - offset} offsets unread"
    else:
        found = f"{place}: there is no offset {offset} yet: was the topic made again?"
    found += f" (it has {limits.first} to {limits.end}; when_offset_is_gone is {setting})."
    if setting is WhenOffsetIsGone.STOP:
        raise OffsetGoneError(
            f"{found} Set the group's offsets ('checkback offsets reset'), or choose earliest or latest."
        )
    new = limits.first if setting is WhenOffsetIsGone.EARLIEST else limits.end
    return Start(Stored(new), f"{found} The group goes on at {new}.")
