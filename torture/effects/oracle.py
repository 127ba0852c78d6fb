"""The oracle of effects: what was committed, against what came of it in the consumers' database."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from torture.effects.database import Effect


@dataclass(frozen=True)
class Verdict:
    """Ids of the orders with which something is wrong."""

    orders: int
    """Committed."""
    effects: int
    dead: int
    """Dead letters: an end, too."""
    lost: list[str] = field(default_factory=list)
    """Committed, with neither effect nor dead letter, and nothing under way that may still bring one."""
    waiting: list[str] = field(default_factory=list)
    """Likewise, but something is under way: the time was over before it came."""
    repeated: list[str] = field(default_factory=list)
    """With more than one effect or dead letter, or one of each."""
    leaked: list[str] = field(default_factory=list)
    """With an effect or a dead letter, and never committed."""
    disordered: list[str] | None = None
    """Whose effect did not come right after the one before it of its key; None: that was promised of none."""

    def holds(self, *, inbox: bool) -> bool:
        """Whether each order has one end, in order, and nothing else has.

        Without the inbox, which takes care of what is done twice, what is repeated or disordered is none of ours.
        """
        return self.nothing_wrong(inbox=inbox) and not self.waiting

    def nothing_wrong(self, *, inbox: bool) -> bool:
        """Whether nothing is known to be wrong, though something may still come."""
        return not (self.lost or self.leaked or (inbox and (self.repeated or self.disordered)))

    def with_waiting(self, ids: Collection[str]) -> "Verdict":
        """The same, where those of the lost ones that are still under way are not called so."""
        return replace(
            self,
            lost=[name for name in self.lost if name not in ids],
            waiting=[name for name in self.lost if name in ids],
        )

    def __str__(self) -> str:
        said = f"{len(self.lost)} lost, {len(self.repeated)} repeated, {len(self.leaked)} leaked"
        said += "" if self.disordered is None else f", {len(self.disordered)} disordered"
        return f"{said}, {len(self.waiting)} still under way" if self.waiting else said


def judge(orders: Collection[str], effects: Mapping[str, int], dead: Mapping[str, int]) -> Verdict:
    """Compare, by order id; ``effects`` and ``dead`` say how often each was found."""
    ends = {name: effects.get(name, 0) + dead.get(name, 0) for name in {*effects, *dead}}
    return Verdict(
        orders=len(orders),
        effects=sum(effects.values()),
        dead=sum(dead.values()),
        lost=sorted(set(orders) - ends.keys()),
        repeated=sorted(name for name, count in ends.items() if count > 1),
        leaked=sorted(ends.keys() - set(orders)),
    )


def disordered(effects: Iterable[Effect]) -> list[str]:
    """Orders whose effect did not come right after the one before it of their key and partition, by offset.

    Each effect says what it came after, as it was committed then: so that one that began before the other was
    committed is found, too. What has had its effect twice is judged by the first.
    """
    first: dict[tuple[int, str, int], Effect] = {}
    for effect in sorted(effects):
        if effect.key is not None:
            first.setdefault((effect.partition, effect.key, effect.place), effect)
    wrong, last = [], dict[tuple[int, str], int]()
    for (partition, key, place), effect in sorted(first.items()):
        if effect.before != last.get((partition, key)):
            wrong.append(effect.id)
        last[partition, key] = place
    return wrong
