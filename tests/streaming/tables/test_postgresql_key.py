"""Which keys a table in PostgreSQL may have, and the statement that is told for others."""

import psycopg
import pytest

from streaming.tables.postgresql_table import UNIQUE_INDEXES, UniqueIndex, key_problem
from tests.tables import Database

KEY = UniqueIndex("messages_pkey", "p", "half,id")
BY_ID = UniqueIndex("messages_pkey", "p", "id")


@pytest.mark.parametrize(
    "indexes",
    [[KEY], [UniqueIndex("x", "", "half,id")], [UniqueIndex("x", "u", "half,id"), UniqueIndex("mine", "p", "number")]],
)
def test_unique_by_id_and_half_is_right(indexes: list[UniqueIndex]) -> None:
    assert key_problem('"messages"', indexes) is None


@pytest.mark.parametrize(
    ("indexes", "what", "statements"),
    [
        ([BY_ID], "by id alone", 'ALTER TABLE "a"."m" DROP CONSTRAINT "messages_pkey", ADD PRIMARY KEY (id, half);'),
        ([], "no unique key", 'ALTER TABLE "a"."m" ADD PRIMARY KEY (id, half);'),
        ([UniqueIndex("p", "p", "number")], "no unique key", 'ALTER TABLE "a"."m" ADD UNIQUE (id, half);'),
        ([KEY, UniqueIndex("u", "u", "id")], "by id alone", 'ALTER TABLE "a"."m" DROP CONSTRAINT "u";'),
        ([KEY, UniqueIndex("u", "", "id")], "by id alone", 'DROP INDEX "a"."u";'),
        (
            [UniqueIndex("u", "", "id"), UniqueIndex("p", "p", "number")],
            "by id alone",
            'DROP INDEX "a"."u"; ALTER TABLE "a"."m" ADD UNIQUE (id, half);',
        ),
    ],
)
def test_another_key_is_told_with_what_corrects_it(indexes: list[UniqueIndex], what: str, statements: str) -> None:
    problem = key_problem('"a"."m"', indexes)
    assert problem is not None
    assert what in problem
    assert problem.endswith(f"start again: {statements}")


def found(connection: psycopg.Connection[tuple[str, ...]], table: str) -> list[UniqueIndex]:
    rows = connection.execute(UNIQUE_INDEXES.replace("?", "%s"), [table]).fetchall()
    return [UniqueIndex(*row) for row in rows]


def test_the_keys_are_found_and_the_statements_correct_them(database: Database) -> None:
    with psycopg.connect(**database.socket) as connection:
        connection.execute("DROP SCHEMA IF EXISTS keys CASCADE")
        connection.execute("CREATE SCHEMA keys")
        connection.execute('CREATE TABLE keys."M" (id text PRIMARY KEY, half text, n int)')
        connection.execute('CREATE UNIQUE INDEX more ON keys."M" (id) INCLUDE (half)')
        connection.execute('CREATE UNIQUE INDEX other ON keys."M" (lower(id), n)')
        table = 'keys."M"'
        indexes = found(connection, table)
        assert indexes == [("M_pkey", "p", "id"), ("more", "", "id"), ("other", "", "n")]
        problem = key_problem(table, indexes)
        assert problem is not None
        connection.execute(problem.partition("start again: ")[2].encode())
        assert found(connection, table) == [("M_pkey", "p", "half,id"), ("other", "", "n")]
        assert key_problem(table, found(connection, table)) is None
        connection.execute("DROP SCHEMA keys CASCADE")
