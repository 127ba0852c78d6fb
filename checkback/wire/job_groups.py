"""Names of the consumer groups in which the job keeps what others may read."""

from checkback.wire.protocol import Topics

GROUPS = "checkback-"
"""How groups begin that are the job's own."""


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
