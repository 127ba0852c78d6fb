"""Why messages of a batch were held, parked or rejected: what the job's log says beside their numbers."""

import json
from collections import Counter
from collections.abc import Iterable

from access.refusals import Refused, refused
from checkback.wire.own_headers import own_headers
from checkback.wire.protocol import GROUP, TOPIC
from streaming.batch.headers import Headers

Kind = tuple[str, str]
"""What became of messages (``held``, ``parked``, ``rejected``), and why."""
Reasons = Counter[Kind]
Examples = dict[Kind, list[str]]
"""Ids of some of them."""

_MOST_KINDS = 50
_MOST_CHARACTERS = 200
"""A reason may have a part of a record in it."""
_OTHERS = "for other reasons"
MOST_EXAMPLES = 3
_MOST_REFUSED = 1_000
"""Groups and topics: likewise."""
_OTHERS_REFUSED = Refused("", "", "more groups and topics than are told apart")


class ReasonCounts:
    """Of one state partition of one batch. Bounded: whoever writes may make every reason a new one."""

    def __init__(self) -> None:
        self._counts: Reasons = Counter()
        self._examples: Examples = {}

    def add(self, what: str, reason: str, transaction_id: str = "") -> None:
        """Count one message; its id may be empty."""
        key = (what, reason[:_MOST_CHARACTERS])
        if key not in self._counts and len(self._counts) >= _MOST_KINDS:
            key = (what, _OTHERS)
        self._counts[key] += 1
        examples = self._examples.setdefault(key, [])
        if transaction_id and len(examples) < MOST_EXAMPLES:
            examples.append(transaction_id)

    def to_json(self) -> str:
        """For :func:`reasons_of`."""
        return json.dumps([[*key, number, self._examples[key]] for key, number in self._counts.items()])


def reasons_of(texts: Iterable[str]) -> tuple[Reasons, Examples]:
    """The sum of what :meth:`ReasonCounts.to_json` gave."""
    summed: Reasons = Counter()
    examples: Examples = {}
    for text in texts:
        for what, reason, number, ids in json.loads(text):
            summed[what, reason] += number
            examples[what, reason] = [*examples.get((what, reason), []), *ids][:MOST_EXAMPLES]
    return summed, examples


class AccessRefusals:
    """What the access policy has refused, of one state partition of one batch. Bounded likewise."""

    def __init__(self) -> None:
        self.counts = Counter[Refused]()

    def add(self, reason: str, written: Headers) -> None:
        """Count a rejected record with these headers, if it was the policy that refused it."""
        own = own_headers(written)
        group, topic = (own.get(name, b"").decode(errors="replace") for name in (GROUP, TOPIC))
        found = refused(reason, group, topic)
        if found is not None:
            told_apart = found in self.counts or len(self.counts) < _MOST_REFUSED
            self.counts[found if told_apart else _OTHERS_REFUSED] += 1
