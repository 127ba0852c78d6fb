"""Whether points equal orders: what both databases say, compared. No database, no Kafka."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

_MOST_NAMED = 20


class Points(NamedTuple):
    """Those of one order: which it is to give, or which it was given."""

    order: int
    customer: str
    points: int


class Verdict(NamedTuple):
    """What is not as promised, by the orders' numbers; nothing of it, and the promise is kept."""

    missing: tuple[int, ...]
    """Committed, and not booked."""
    doubled: tuple[int, ...]
    """Booked more than once."""
    wrong: tuple[int, ...]
    """Booked for another customer, or with other points."""
    unknown: tuple[int, ...]
    """Booked, and never committed."""
    accounts: Mapping[str, tuple[int, int]]
    """Customers whose account is wrong: the points that it has, and those that it should have."""

    @property
    def kept(self) -> bool:
        """Whether each order has had its effect once, and no other."""
        return not any(self)

    def sentences(self) -> Iterator[str]:
        """What is broken, in English."""
        yield from _named("committed and without points", self.missing)
        yield from _named("booked more than once", self.doubled)
        yield from _named("booked for another customer, or with other points", self.wrong)
        yield from _named("booked and never committed", self.unknown)
        for customer, (are, should_be) in sorted(self.accounts.items()):
            yield f"{customer} has {are} points and should have {should_be}."


def judge(orders: Iterable[Points], bookings: Iterable[Points], accounts: Mapping[str, int]) -> Verdict:
    """Compare the shop's committed orders with the bookings and the accounts of the points service."""
    committed, booked = {one.order: one for one in orders}, list(bookings)
    times = Counter(one.order for one in booked)
    should_be = due(committed.values())
    return Verdict(
        missing=tuple(sorted(committed.keys() - times.keys())),
        doubled=tuple(sorted(order for order, number in times.items() if number > 1)),
        wrong=tuple(sorted({one.order for one in booked if one.order in committed and one != committed[one.order]})),
        unknown=tuple(sorted(times.keys() - committed.keys())),
        accounts={
            customer: (accounts.get(customer, 0), should_be[customer])
            for customer in {*accounts, *should_be}
            if accounts.get(customer, 0) != should_be[customer]
        },
    )


def due(orders: Iterable[Points]) -> Counter[str]:
    """The points that each customer should have."""
    total: Counter[str] = Counter()
    for one in orders:
        total[one.customer] += one.points
    return total


def _named(what: str, orders: tuple[int, ...]) -> Iterator[str]:
    if orders:
        more = f" and {len(orders) - _MOST_NAMED} more" if len(orders) > _MOST_NAMED else ""
        yield f"{len(orders)} orders were {what}: {', '.join(map(str, orders[:_MOST_NAMED]))}{more}."
