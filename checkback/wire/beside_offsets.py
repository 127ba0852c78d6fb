"""What a group has stored beside an offset, as clients give it. Whoever may commit for the group has written it."""

from typing import Protocol

from checkback.exceptions import ConfigurationError

END = "\0"
"""Ends what is stored beside an offset. confluent-kafka writes it by itself; and where it is missing, confluent-kafka
reads on until it finds one somewhere in memory (2.16)."""


class _Offset(Protocol):
    @property
    def metadata(self) -> str | None: ...


def metadata_refused(who: str, error: object) -> ConfigurationError:
    """What to raise when brokers refuse what ``who`` stores beside an offset, because it is too long for them."""
    return ConfigurationError(
        f"Kafka refuses what {who} stores beside an offset: set offset.metadata.max.bytes of the brokers to 4096, "
        f"Kafka's default, or more. ({error})"
    )


def without_end(metadata: str | None) -> str:
    """What was stored beside an offset."""
    return (metadata or "").partition(END)[0]


def metadata_of(offset: _Offset) -> str:
    """What was stored beside an offset that confluent-kafka gives; empty, too, where it cannot say."""
    try:
        return without_end(offset.metadata)
    except UnicodeDecodeError:  # another client's, which did not end it: what lies behind it in memory is no text
        return ""
