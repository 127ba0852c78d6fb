"""Tags: which messages of a topic a subscription wants, and which members of a group want something else. No Kafka.

All members of a group should want the same of a topic. A member's client id says what it wants:
``...;tags=<topic>:<expression>,...``, both as checksums. So each member can see at the brokers what all others want
now, however the partitions are shared out.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Self
from zlib import crc32

from checkback.consumer.clients.base import Member
from checkback.exceptions import ConfigurationError

ALL = "*"
_OR = "||"
_NO_TAG = re.compile(r"\||&&")
_MARK = ";tags="
_MOST_TOPICS = 20


class TagExpression:
    """``*``, or tags with ``||`` between them: ``paid || refunded``.

    Compared as RocketMQ does, in two steps: by hash, which turns away nearly all that is not wanted, then by text, for
    those of another text and the same hash. A message without a tag is wanted by ``*`` alone.
    """

    def __init__(self, tags: frozenset[str]) -> None:
        self.tags = tags
        self._texts = frozenset(tag.encode() for tag in tags)
        self._hashes = frozenset(crc32(text) for text in self._texts)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read an expression; empty is ``*``, as in RocketMQ.

        Raises:
            ConfigurationError: it names no tag where there should be one.
        """
        if not isinstance(text, str):
            raise ConfigurationError(f"A tag expression is text, not {type(text).__name__}.")
        if text.strip() in {"", ALL}:
            return cls(frozenset())
        tags = frozenset(part.strip() for part in text.split(_OR))
        if "" in tags or ALL in tags or any(_NO_TAG.search(tag) for tag in tags):
            raise ConfigurationError(
                f"A tag expression is '*', or tags with '||' between them, not {text!r}; no tag has | or && in it."
            )
        return cls(tags)

    @property
    def admits_all(self) -> bool:
        """Whether it is ``*``."""
        return not self.tags

    def admits(self, tag: bytes | None) -> bool:
        """Whether a message with this tag is wanted; None: it has none."""
        if not self.tags:
            return True
        return tag is not None and crc32(tag) in self._hashes and tag in self._texts

    def __str__(self) -> str:
        return f" {_OR} ".join(sorted(self.tags)) or ALL

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TagExpression) and self.tags == other.tags

    def __hash__(self) -> int:
        return hash(self.tags)


def client_id(base: str, topics: Mapping[str, TagExpression]) -> str:
    """A client id that says what is wanted; of more than 20 topics, of the first 20 by name."""
    said = [f"{_sum(topic)}:{_sum(str(topics[topic]))}" for topic in sorted(topics)[:_MOST_TOPICS]]
    return f"{base}{_MARK}{','.join(said)}"


def wants_otherwise(members: Iterable[Member], topics: Mapping[str, TagExpression]) -> list[tuple[Member, str]]:
    """Members that want something else of a topic that both read, and which topic. Other clients say nothing."""
    ours = {_sum(topic): (topic, _sum(str(expression))) for topic, expression in topics.items()}
    found = []
    for member in members:
        _, _, said = member.client_id.partition(_MARK)
        for pair in filter(None, said.split(",")):
            topic, _, expression = pair.partition(":")
            if topic in ours and ours[topic][1] != expression:
                found.append((member, ours[topic][0]))
    return found


def _sum(text: str) -> str:
    return f"{crc32(text.encode()):08x}"
