"""What the reference model knows of ops that say that a lane has delivered a half message nobody has seen yet."""

from dataclasses import replace

from tests.state.records import Half, Op


class Claims:
    """Of one segment."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.known: dict[int, list[Op]] = {}
        """By place, of each kind the first one."""
        self._contested: set[int] = set()

    def __len__(self) -> int:
        return sum(len(ops) for ops in self.known.values())

    def take(self, op: Op) -> bool | None:
        """Whether it is kept; None: the same is already."""
        known = self.known.setdefault(op.half_offset, [])
        if any(_named(op) == _named(one) for one in known):
            return None
        if len(known) < self._most:
            known.append(op)
            return True
        self._contested.add(op.half_offset)
        return False

    def contest(self, half: Half) -> bool:
        return half.lane >= 0 and half.offset in self._contested and not self._fitting(half)

    def redeem(self, half: Half) -> tuple[list[Op], list[Op]]:
        """Of a half message that has come: those that fit it, as far as they are known, and those that do not."""
        fitting = self._fitting(half)
        others = [op for op in self.known.pop(half.offset, []) if op not in fitting]
        self._contested.discard(half.offset)
        return [_bare(op) for op in fitting], [replace(_bare(op), transaction_id="", group="") for op in others]

    def _fitting(self, half: Half) -> list[Op]:
        named = (half.transaction_id, half.group)
        return [op for op in self.known.get(half.offset, []) if half.lane >= 0 and _named(op) == named]


def _bare(op: Op) -> Op:
    return replace(op, source="", key=None, value=None, headers=None, settled=0)


def _named(op: Op) -> tuple[str, str]:
    return op.transaction_id, op.group
