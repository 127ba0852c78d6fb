"""Which destinations a topic's messages go to."""

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from conf import KAFKA

Rule = tuple[str, tuple[str, ...]]
"""A pattern of topics, and the names of their destinations."""


@dataclass(frozen=True)
class Routes:
    """The rules of the settings, as tasks know them. The first one that a topic matches holds; without one: Kafka."""

    rules: tuple[Rule, ...] = ()

    @classmethod
    def of(cls, rules: Sequence[tuple[str, Sequence[str]]]) -> "Routes":
        """From pairs of pattern and destinations."""
        return cls(tuple((pattern, tuple(to)) for pattern, to in rules))

    def of_topic(self, topic: str) -> tuple[str, ...]:
        """Names of the destinations of a topic's messages."""
        for pattern, destinations in self.rules:
            if fnmatchcase(topic, pattern):
                return destinations
        return (KAFKA,)

    def tables(self) -> list[str]:
        """Names of all destinations but Kafka, in their order."""
        return list(dict.fromkeys(name for _, to in self.rules for name in to if name != KAFKA))
