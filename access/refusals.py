"""Which rejected records the access policy has refused, told by their reasons. No I/O."""

import re
from typing import NamedTuple

UNSIGNED = "it is not signed as the policy asks for: 'checkback rejected' says of each what is wrong"
_MOST_CHARACTERS = 300

# A topic's name has no space, and a group's may have any: so what a group is called changes nothing about the rest.
_NOT_ALLOWED = re.compile(
    r"group .* may not send to (?P<topic>[\w.-]+)"
    r"(?:, which is another group's|, which its account \(.*\) (?:denies|does not name)|: no account names that group)",
    re.DOTALL,
)
_NOT_SIGNED = re.compile(
    r"group .* has keys, and cb-signature |it is signed with key .* needs a key of |its signature does not fit key "
    r"|it was signed \d+ s |its content has more than [\d,]+ bytes, and no hash in cb-signature$"
    r"|its key, value or headers are not those that were signed$",
    re.DOTALL,
)


class Refused(NamedTuple):
    """What the policy refuses, as it is counted."""

    group: str
    topic: str
    """The real one; empty: of an op."""
    reason: str
    """The same for all records of a group and topic that are refused alike."""


def refused(reason: str, group: str, topic: str) -> Refused | None:
    """What was refused, by the reason for which a record was rejected; None: it was rejected for something else.

    ``group`` and ``topic`` are what the record says; of several messages the reason names the one that counts.
    """
    found = _NOT_ALLOWED.fullmatch(reason)
    if found is not None:
        return Refused(group, found["topic"], reason[:_MOST_CHARACTERS])
    return Refused(group, topic, UNSIGNED) if _NOT_SIGNED.match(reason) else None
