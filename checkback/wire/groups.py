"""Names of the consumer groups in which the job keeps what others may read, and what is stored beside an offset.

Whoever may commit for a group has written that.
"""

from typing import Any

from checkback.exceptions import ConfigurationError
from checkback.wire.protocol import Topics

GROUPS = "checkback-"
"""How groups begin that are the job's own."""
END = "\0"
"""Ends what is stored beside an offset. confluent-kafka writes it by itself; and where it is missing, confluent-kafka
reads on until it finds one somewhere in memory (2.16)."""


def claim_group(topics: Topics) -> str:
    """The group whose offset of partition 0 of ``cb.progress`` has the claim in its metadata."""
    return f"{GROUPS}claim:{topics.prefix}"


def limit_group(group: str) -> str:
    """The group whose offset of partition 0 of ``cb.progress`` says until when a producer group is over a limit."""
    return f"{GROUPS}limit:{group}"


def display_group(topics: Topics) -> str:
    """The group in which the job says how far it has read, for people and tools only."""
    return f"{topics.prefix}job"


def checkers_group(topics: Topics) -> str:
    """The group in which check services share the check topic."""
    return f"{topics.prefix}checkers"


def own_groups(topics: Topics) -> tuple[str, ...]:
    """Those of the job and its check services that have names of their own; others are named after a checkpoint."""
    return claim_group(topics), checkers_group(topics), display_group(topics), topics.later


def is_own(group: str, topics: Topics) -> bool:
    """Whether a consumer group is the job's, a check service's or a producer's, as far as its name tells."""
    return group.startswith(GROUPS) or group in own_groups(topics)


def metadata_refused(who: str, error: object) -> ConfigurationError:
    """What to raise when brokers refuse what ``who`` stores beside an offset, because it is too long for them."""
    return ConfigurationError(
        f"Kafka refuses what {who} stores beside an offset: set offset.metadata.max.bytes of the brokers to 4096, "
        f"Kafka's default, or more. ({error})"
    )


def without_end(metadata: str | None) -> str:
    """What was stored beside an offset."""
    return (metadata or "").partition(END)[0]


def metadata_of(offset: Any) -> str:
    """What was stored beside an offset that confluent-kafka gives; empty, too, where it cannot say."""
    try:
        return without_end(offset.metadata)
    except UnicodeDecodeError:  # another client's, which did not end it: what lies behind it in memory is no text
        return ""
