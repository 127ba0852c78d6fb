"""Both databases of a fault run with consumers, read piece by piece: what was committed, and what came of it."""

import sqlite3
from collections import Counter
from collections.abc import Collection
from contextlib import closing
from pathlib import Path
from typing import Any

from sqlalchemy import select

from torture.effects.database import EFFECTS, Effect, EffectsDatabase
from torture.effects.shop import GROUP as SHOP

_SECONDS = 60.0
_ORDERS = "SELECT rowid, id, at FROM sent WHERE rowid > ? ORDER BY rowid"
_EFFECTS = select(*(EFFECTS.c[name] for name in Effect._fields)).order_by(EFFECTS.c.number)
_LATE = 1_000
"""Rows that may be committed before one with a smaller number is: a minute's. What comes later still is read at the
end."""


class Books:
    """Rows are only added, so each is read once."""

    def __init__(self, folder: Path, database: EffectsDatabase) -> None:
        self._shop = _Orders(folder / f"{SHOP}.db")
        self._consumers = BookedEffects(database)
        self.orders: dict[str, float] = {}
        """When each was committed (``time.time()``)."""
        self.effects: Counter[str] = Counter()
        self.booked: list[Effect] = []
        """The same, each for itself."""
        self._newest: dict[int, float] = {}
        """By partition: when the newest order was committed that has had its effect."""

    def read(self, *, whole: bool = False) -> None:
        """Read on. Effects first: each has its order in the other one by then.

        ``whole``: read all effects there are, so that nothing that was committed late is left out.
        """
        effects = self._consumers.more(0 if whole else self._consumers.last - _LATE)
        self.orders.update(self._shop.more())
        self.booked += effects
        for effect in effects:
            self.effects[effect.id] += 1
            committed = self.orders.get(effect.id, 0.0)
            self._newest[effect.partition] = max(self._newest.get(effect.partition, 0.0), committed)

    def went_on(self, since: float, partitions: Collection[int]) -> bool:
        """Whether in each partition an order has had its effect that was committed after a moment."""
        self.read()
        return all(self._newest.get(partition, 0.0) > since for partition in partitions)

    def without_effect(self) -> set[str]:
        """Orders that have had none."""
        return self.orders.keys() - self.effects.keys()


class _Orders:
    """One process writes them, so that their numbers rise as they are committed."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._last = 0

    def more(self) -> list[tuple[Any, ...]]:
        if not self._file.exists():  # the shop has yet to make it
            return []
        with closing(sqlite3.connect(self._file, timeout=_SECONDS)) as database:
            try:
                rows = database.execute(_ORDERS, (self._last,)).fetchall()
            except sqlite3.OperationalError as error:
                if "no such table" in str(error):
                    return []
                raise
        if rows:
            self._last = rows[-1][0]
        return [row[1:] for row in rows]


class BookedEffects:
    """Each row is given once. Servers number rows before they are committed: one may appear before those before it."""

    def __init__(self, database: EffectsDatabase) -> None:
        self._engine = database.engine()
        self._known = set[int]()
        self.last = 0

    def more(self, after: int) -> list[Effect]:
        """Those that are new, of such a number."""
        with self._engine.connect() as connection:
            found = [Effect(*row) for row in connection.execute(_EFFECTS.where(EFFECTS.c.number > after))]
        new = [effect for effect in found if effect.number not in self._known]
        self._known.update(effect.number for effect in new)
        self.last = max([self.last, *(effect.number for effect in new)])
        return new
