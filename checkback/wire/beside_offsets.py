"""What a group has stored beside an offset, as clients give it. Whoever may commit for the group has written it."""

from typing import Protocol

END = "\0"
"""Ends what is stored beside an offset. confluent-kafka writes it by itself; and where it is missing, confluent-kafka
reads on until it finds one somewhere in memory (2.16)."""


class _Offset(Protocol):
    @property
    def metadata(self) -> str | None: ...


def without_end(metadata: str | None) -> str:
    """What was stored beside an offset."""
    return (metadata or "").partition(END)[0]


def metadata_of(offset: _Offset) -> str:
    """What was stored beside an offset that confluent-kafka gives; empty, too, where it cannot say."""
    try:
        return without_end(offset.metadata)
    except UnicodeDecodeError:  # another client's, which did not end it: what lies behind it in memory is no text
        return ""
