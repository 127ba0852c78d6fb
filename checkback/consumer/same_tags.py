"""All members of a group should want the same of a topic: who wants something else is noticed, and said. No Kafka.

A member's client id says what it wants: ``...;tags=<topic>:<expression>,...``, both as checksums. So each member can
see at the brokers what all others want now, however the partitions are shared out.
"""

from collections.abc import Iterable, Mapping
from zlib import crc32

from checkback.consumer.clients.base import Member
from checkback.consumer.tags import TagExpression

_MARK = ";tags="
_MOST_TOPICS = 20


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
