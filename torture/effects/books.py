"""Both databases of a fault run with consumers, read piece by piece: what was committed, and what came of it."""

import sqlite3
from collections import Counter
from collections.abc import Collection
from contextlib import closing
from pathlib import Path
from typing import Any

from torture.effects.booking import EFFECTS
from torture.effects.shop import GROUP as SHOP

_SECONDS = 60.0
_ORDERS = "SELECT rowid, id, at FROM sent WHERE rowid > ? ORDER BY rowid"
_EFFECTS = "SELECT rowid, id, partition FROM effects WHERE rowid > ? ORDER BY rowid"


class Books:
    """Rows are only added, so each is read once."""

    def __init__(self, folder: Path) -> None:
        self._shop = _Growing(folder / f"{SHOP}.db", _ORDERS)
        self._consumers = _Growing(folder / EFFECTS, _EFFECTS)
        self.orders: dict[str, float] = {}
        """When each was committed (``time.time()``)."""
        self.effects: Counter[str] = Counter()
        self._newest: dict[int, float] = {}
        """By partition: when the newest order was committed that has had its effect."""

    def read(self) -> None:
        """Read on. Effects first: each has its order in the other one by then."""
        effects = self._consumers.more()
        self.orders.update(self._shop.more())
        for name, partition in effects:
            self.effects[name] += 1
            self._newest[partition] = max(self._newest.get(partition, 0.0), self.orders.get(name, 0.0))

    def went_on(self, since: float, partitions: Collection[int]) -> bool:
        """Whether in each partition an order has had its effect that was committed after a moment."""
        self.read()
        return all(self._newest.get(partition, 0.0) > since for partition in partitions)

    def without_effect(self) -> set[str]:
        """Orders that have had none."""
        return self.orders.keys() - self.effects.keys()


class _Growing:
    def __init__(self, file: Path, query: str) -> None:
        self._file = file
        self._query = query
        self._last = 0

    def more(self) -> list[tuple[Any, ...]]:
        if not self._file.exists():  # the shop has yet to make it
            return []
        with closing(sqlite3.connect(self._file, timeout=_SECONDS)) as database:
            try:
                rows = database.execute(self._query, (self._last,)).fetchall()
            except sqlite3.OperationalError as error:
                if "no such table" in str(error):
                    return []
                raise
        if rows:
            self._last = rows[-1][0]
        return [row[1:] for row in rows]
