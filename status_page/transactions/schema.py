"""The tables of :mod:`status_page.transactions.index`: two lists of the same shape, and how many each has of what."""

from typing import NamedTuple

UNDECIDED = "undecided"
UNDELIVERABLE = "undeliverable"
"""Committed, and not delivered: the job has it, and delivers it again when an operator says so."""
UNKEPT = "unkept"
"""Likewise, but the job has not kept it."""


class _List(NamedTuple):
    name: str
    key: str
    columns: tuple[str, ...]
    """Beyond those that both have."""

    @property
    def put(self) -> str:
        """Inserts a row, or replaces what is there."""
        columns = (*_COMMON, *self.columns)
        marks = ", ".join("?" * len(columns))
        new = ", ".join(f"{name} = excluded.{name}" for name in columns)
        return f"INSERT INTO {self.name} VALUES ({marks}) ON CONFLICT ({self.key}) DO UPDATE SET {new}"  # noqa: S608  (our own names only)

    @property
    def schema(self) -> str:
        """Makes the table, an index for each way to ask for it, and what keeps the tallies."""
        columns = ", ".join((*_COMMON, *self.columns))
        place = "since_ms, partition, offset, id"
        indices = [
            f"CREATE INDEX {self.name}_{n} ON {self.name} ({by})"
            for n, by in enumerate(
                (
                    place,
                    f"grp, {place}",
                    f"topic, {place}",
                    f"grp, topic, {place}",
                    "id",
                )
            )
        ]
        add = self._tally("new", 1)
        none_left = "DELETE FROM tallies WHERE number = 0 AND list = '{}' AND grp = old.grp AND topic = old.topic;"
        take = self._tally("old", -1) + none_left.format(self.name)
        on = f"ON {self.name} FOR EACH ROW"
        changed = "WHEN old.grp <> new.grp OR old.topic <> new.topic OR old.kind <> new.kind"
        triggers = [
            f"CREATE TRIGGER {self.name}_added AFTER INSERT {on} BEGIN {add} END",
            f"CREATE TRIGGER {self.name}_gone AFTER DELETE {on} BEGIN {take} END",
            f"CREATE TRIGGER {self.name}_changed AFTER UPDATE {on} {changed} BEGIN {take} {add} END",
        ]
        table = f"CREATE TABLE {self.name} ({columns}, PRIMARY KEY ({self.key})) WITHOUT ROWID"
        return ";\n".join((table, *indices, *triggers, ""))

    def _tally(self, row: str, by: int) -> str:
        return (
            f"INSERT INTO tallies VALUES ('{self.name}', {row}.grp, {row}.topic, {row}.kind, {by}) "  # noqa: S608  (our own names only)
            f"ON CONFLICT (list, grp, topic, kind) DO UPDATE SET number = number + ({by});"
        )


_COMMON = ("partition", "offset", "id", "grp", "topic", "since_ms", "kind")

STATUS = _List(
    "status",
    "partition, offset",
    ("attempt", "check_max", "asked_ms", "next_check_ms", "answered_ms", "misses", "remark"),
)
"""Of ``cb.status``; ``kind`` is the last answer."""
PARKED = _List("parked", "partition, offset, id", ("reason", "answer", "key_bytes", "value_bytes"))
"""Of ``cb.parked``; several messages of one transaction lie at the same place."""

SCHEMA = f"""
PRAGMA journal_mode = OFF;
PRAGMA synchronous = OFF;
PRAGMA cache_size = -16384;
CREATE TABLE tallies (list, grp, topic, kind, number, PRIMARY KEY (list, grp, topic, kind)) WITHOUT ROWID;
{STATUS.schema}
{PARKED.schema}
"""
"""Everything. It is a private file that nobody reads again after a crash: neither journal nor waiting for the disk."""
