"""What producer groups have under way: counted where it changes, summed by whoever watches their quotas."""

from typing import NamedTuple, Self

import numpy as np
import pyarrow as pa

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
"""By producer group."""

_NONE = Usage()


def usage_of(messages: Rows, states: StateCodes) -> Usages:
    """What the messages kept in a segment come to; ``states[i]`` is that of message i."""
    if not messages.count:
        return {}
    encoded = pa.array(messages["group"], pa.string()).dictionary_encode()
    names, codes = encoded.dictionary.to_pylist(), encoded.indices.to_numpy()
    undecided = np.isin(states, UNDECIDED)

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
