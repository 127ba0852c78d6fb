"""The key of a table in PostgreSQL: id and place of the half message, since anybody may use an id that another has."""

from collections.abc import Sequence
from typing import NamedTuple

KEY = ("id", "half")
"""A place has one half message, and the messages of one half message have ids of their own. The id comes first so that
people who look for one find it by the key's index."""

UNIQUE_INDEXES = """
SELECT x.relname, coalesce(c.contype::text, ''), array_to_string(ARRAY(
    SELECT a.attname FROM pg_attribute a
    WHERE a.attrelid = i.indrelid AND a.attnum = ANY ((i.indkey::int2[])[0:i.indnkeyatts - 1]) ORDER BY a.attname), ',')
FROM pg_index i JOIN pg_class x ON x.oid = i.indexrelid
LEFT JOIN pg_constraint c ON c.conindid = i.indexrelid AND c.contype IN ('p', 'u')
WHERE i.indrelid = to_regclass(?) AND i.indisunique ORDER BY x.relname
"""


class UniqueIndex(NamedTuple):
    """A row of ``UNIQUE_INDEXES``."""

    name: str
    constraint: str
    """``p`` of a primary key, ``u`` of a unique constraint, empty of an index alone."""
    columns: str
    """Their names, sorted, with commas."""


def key_problem(table: str, indexes: Sequence[UniqueIndex]) -> str | None:
    """What is wrong with the keys of a (quoted) table, with the statement that corrects it; or None."""
    wanted = ",".join(sorted(KEY))
    by_id = [one for one in indexes if one.columns == KEY[0]]
    changes = [f'DROP CONSTRAINT "{one.name}"' for one in by_id if one.constraint]
    if not any(one.columns == wanted for one in indexes):
        primary = any(one.constraint == "p" and one not in by_id for one in indexes)
        changes.append(f"ADD {'UNIQUE' if primary else 'PRIMARY KEY'} ({', '.join(KEY)})")
    schema = table.rpartition(".")[0]
    drops = [f'DROP INDEX {f"{schema}." if schema else ""}"{one.name}"' for one in by_id if not one.constraint]
    statements = [*drops, *([f"ALTER TABLE {table} {', '.join(changes)}"] if changes else [])]
    if not statements:
        return None
    what = (
        "is unique by id alone, so that messages of two producer groups with the same id cannot both be there"
        if by_id
        else "has no unique key of id and half"
    )
    return f"the table {table} {what}. Run this, as its owner, and start again: {'; '.join(statements)};"
