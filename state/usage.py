"""What producer groups have under way: counted where it changes, summed by whoever watches their quotas."""

from typing import NamedTuple, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from state.content import content_bytes
from state.rows import Column, Rows
from state.table import FOR_OPERATORS, UNDECIDED, State, StateCodes


class Usage(NamedTuple):
    """What one group has, or how much that has changed."""

    open: int = 0
    """Undecided half messages."""
    open_bytes: int = 0
    """Their keys, values and headers."""
    delayed: int = 0
    """Committed messages that wait for their time, held ones among them."""
    parked: int = 0
    """Messages that wait for an operator."""

    def plus(self, other: Self) -> Self:
        """Both together."""
        return type(self)(*(one + another for one, another in zip(self, other, strict=True)))

    def minus(self, other: Self) -> Self:
        """What the other one has not."""
        return type(self)(*(one - another for one, another in zip(self, other, strict=True)))


Usages = dict[str, Usage]
"""By producer group; what a consumer group has to get again, by the topic of its retries."""

_NONE = Usage()


def counted_for(groups: Column, topics: Column, retry_prefix: str) -> Column:
    """object[n]: the group that each message counts for, or its topic if that is for the retries of its own group.

    Any consumer may write such a message and name any group: it must not use up what that group's producers may have.
    """
    if not (retry_prefix and len(groups)):
        return groups
    own_retries = pc.binary_join_element_wise(retry_prefix, pa.array(groups, pa.string()), "")
    retries: Column = pc.equal(pa.array(topics, pa.string()), own_retries).to_numpy(zero_copy_only=False)
    return np.where(retries, topics, groups)


def usage_of(messages: Rows, states: StateCodes, retry_prefix: str = "") -> Usages:
    """What the messages kept in a segment come to; ``states[i]`` is that of message i.

    Args:
        messages: ``MESSAGE_FIELDS``.
        states: uint8[n].
        retry_prefix: of the topics of retries, which count for their topic once they are decided; empty: all messages
            count for their group.
    """
    if not messages.count:
        return {}
    undecided = np.isin(states, UNDECIDED)
    groups = messages["group"]
    if retry_prefix and not undecided.all():
        groups = np.where(undecided, groups, counted_for(groups, messages["topic"], retry_prefix))
    encoded = pa.array(groups, pa.string()).dictionary_encode()
    names, codes = encoded.dictionary.to_pylist(), encoded.indices.to_numpy()

    def count(chosen: Column) -> list[int]:
        found: list[int] = np.bincount(codes[chosen], minlength=len(names)).tolist()
        return found

    sizes = np.bincount(codes[undecided], content_bytes(messages)[undecided], len(names)).astype(np.int64).tolist()
    columns = (count(undecided), sizes, count(states == State.DELAYED), count(np.isin(states, FOR_OPERATORS)))
    return {name: Usage(*numbers) for name, *numbers in zip(names, *columns, strict=True)}


def changes(before: Usages, after: Usages) -> Usages:
    """How the usage of each group has changed; groups without a change are left out."""
    found = {name: after.get(name, _NONE).minus(before.get(name, _NONE)) for name in before.keys() | after.keys()}
    return {name: found[name] for name in sorted(found) if found[name] != _NONE}


def summed(parts: list[Usages]) -> Usages:
    """All parts together."""
    total: Usages = {}
    for part in parts:
        for name, usage in part.items():
            total[name] = total.get(name, _NONE).plus(usage)
    return total
