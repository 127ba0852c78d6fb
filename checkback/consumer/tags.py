"""Tags: which messages of a topic a subscription wants. No Kafka."""

import re
from typing import Self
from zlib import crc32

from checkback.exceptions import ConfigurationError

ALL = "*"
_OR = "||"
_NO_TAG = re.compile(r"\||&&")


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
