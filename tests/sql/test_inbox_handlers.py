"""A handler with a transaction of its own, pruning, and the table."""

import asyncio
import re
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, MetaData, create_engine, inspect, select, text
from sqlalchemy.orm import Session
from sqlalchemy.pool import StaticPool

from checkback import ConfigurationError
from checkback.consumer import ConsumeResult, ReceivedMessage
from checkback.sql.inbox import SqlInbox
from tests.sql.databases import ALL, DJANGO_EACH
from tests.sql.points import LATER, PAGE, SUCCESS, HandlerError, Points, commit

djangos_too = pytest.mark.parametrize("kind", [*ALL, *DJANGO_EACH], indirect=True)


@djangos_too
def test_a_handler_is_a_listener_with_a_transaction_of_its_own(points: Points) -> None:
    ends: Iterator[ConsumeResult | Exception | None] = iter([SUCCESS, HandlerError(), LATER, None])

    @points.inbox.handler
    def give(session: Session, message: str) -> ConsumeResult | None:
        points.give(session, message)
        end = next(ends)
        if isinstance(end, Exception):
            raise end
        return end

    assert [give("a"), give("a")] == [SUCCESS, SUCCESS]
    with pytest.raises(HandlerError):
        give("b")
    assert give("b") is LATER
    assert points.given() == ["a"]
    assert [give("b"), give("b")] == [SUCCESS, SUCCESS]
    assert points.given() == ["a", "b"]
    assert points.inbox.passed_over == 2
    assert give.__name__ == "give"


class CalledLater:
    """A handler that is not seen to be a coroutine function."""

    async def __call__(self, session: Session, message: str) -> None:
        raise HandlerError


def from_outside(session: Session, message: str) -> Coroutine[Any, Any, None]:
    return CalledLater()(session, message)


def bit_by_bit(session: Session, message: str) -> Iterator[None]:
    yield session.execute(text("DELETE FROM nowhere"))


@pytest.mark.parametrize("kind", ["sqlite"])
@pytest.mark.parametrize("handle", [CalledLater(), from_outside, bit_by_bit, lambda *_: True])
def test_a_handler_that_has_not_run_or_says_nothing_known_leaves_no_row(points: Points, handle: Any) -> None:
    listener: Callable[[str], ConsumeResult] = points.inbox.handler(handle)
    for _ in range(2):
        with pytest.raises(TypeError, match="must return a ConsumeResult or None"):
            listener("a")
    assert points.take("a")


def commit_below(session: Session) -> None:
    session.connection().commit()


def commit_with_a_savepoint(session: Session) -> None:
    session.begin_nested()
    session.commit()


def commit_after_a_rollback(session: Session) -> None:
    session.rollback()
    with session.begin():
        session.execute(text("SELECT 1"))


@pytest.mark.parametrize("end", [commit, commit_below, commit_with_a_savepoint, commit_after_a_rollback])
def test_a_handler_that_commits_is_refused_and_half_of_its_effect_is_not_kept(points: Points, end: Any) -> None:
    """Else the message passes for done when it comes again, and the second half never is."""
    commits = True

    @points.inbox.handler
    def give(session: Session, message: str) -> None:
        points.give(session, "first half")
        if commits:
            end(session)
        points.give(session, "second half")

    for _ in range(2):
        with pytest.raises(ConfigurationError, match=r"commit\(\).*begin_nested"):
            give("a")
        assert (points.given(), points.rows()) == ([], [])
    commits = False
    assert give("a") is SUCCESS
    assert points.given() == ["first half", "second half"]


def test_savepoints_and_rollbacks_of_a_handler_are_its_own_affair(points: Points) -> None:
    @points.inbox.handler
    def give(session: Session, message: str) -> None:
        points.give(session, "undone")
        session.rollback()
        with session.begin_nested():
            points.give(session, "kept")
        savepoint = session.begin_nested()
        points.give(session, "undone, too")
        savepoint.rollback()

    assert [give("a"), give("a")] == [SUCCESS, SUCCESS]
    assert points.given() == ["kept"]


@djangos_too
def test_prune_deletes_rows_of_that_age_and_group_in_batches(points: Points) -> None:
    for number in range(7):
        points.take(f"old-{number}")
    with points.engine.begin() as connection, points.inbox_of("mail").once(connection, "old-0"):
        pass
    long_ago = datetime.now(UTC) - timedelta(days=31)
    with points.engine.begin() as connection:
        connection.execute(points.inbox.table.update().values(received_at=long_ago))
    points.take("new")
    assert points.inbox.prune(timedelta(days=32)) == 0
    assert points.inbox.prune(timedelta(days=30), batch=3) == 7
    assert points.rows() == [("mail", "old-0"), ("points", "new")]
    assert points.take("old-1")


@pytest.mark.parametrize("kind", ["postgresql-read-committed", "mariadb-repeatable-read"], indirect=True)
def test_two_that_prune_do_not_wait_for_each_other(points: Points) -> None:
    for number in range(4):
        points.take(number_of(number))
    with points.engine.begin() as connection:
        assert points.inbox._prune_batch(connection, datetime.now(UTC), 2) == 2
        assert points.inbox.prune(timedelta(microseconds=1)) == 2
    assert points.rows() == []


def number_of(number: int) -> str:
    return f"message {number}"


@pytest.mark.parametrize("kind", ["sqlite"], indirect=True)
def test_prune_wants_an_age_and_a_number(points: Points) -> None:
    for older_than, batch in ((timedelta(0), 1), (timedelta(days=-1), 1), (timedelta(1), 0)):
        with pytest.raises(ConfigurationError, match=r"older_than|batch is 0"):
            points.inbox.prune(older_than, batch=batch)


def test_the_table_is_made_once_however_many_processes_do_it(points: Points) -> None:
    inbox = SqlInbox(points.engine, "points", table=f"{points.inbox_table} again")
    with ThreadPoolExecutor(4) as executor:
        for made in [executor.submit(inbox.create) for _ in range(8)]:
            made.result(60)
    assert indexes(points.engine, inbox.table.name) == 1


def test_the_statements_for_a_migration_make_the_same(points: Points) -> None:
    name = f"migrated_{points.inbox_table}"
    inbox = SqlInbox(points.engine, "points", table=name)
    with points.engine.begin() as connection:
        for statement in inbox.ddl().split(";\n")[:-1]:
            connection.execute(text(statement))
    assert indexes(points.engine, name) == 1
    inbox.create()
    with points.engine.begin() as connection, inbox.once(connection, "a") as first:
        assert first


def indexes(engine: Engine, table: str) -> int:
    return len(inspect(engine).get_indexes(table))


def test_the_table_may_be_one_of_the_applications_metadata() -> None:
    metadata = MetaData()
    SqlInbox(create_engine("sqlite://"), "points", metadata=metadata)
    assert list(metadata.tables) == ["checkback_inbox"]


def test_what_it_cannot_work_with_is_refused() -> None:
    another: Any = SimpleNamespace(dialect=SimpleNamespace(name="oracle"))
    with pytest.raises(ConfigurationError, match="not on oracle"):
        SqlInbox(another, "points")
    for group in ("", "g" * 256, "a\0"):
        with pytest.raises(ConfigurationError, match="A group's name has 1 to 255 bytes"):
            SqlInbox(create_engine("sqlite://"), group)
    inbox = SqlInbox(create_engine("sqlite://", poolclass=StaticPool), "points")

    async def give(_session: Any, _message: str) -> None:
        raise AssertionError

    with pytest.raises(ConfigurationError, match="not asyncio's: use a plain 'def'"):
        inbox.handler(give)
    with pytest.raises(ConfigurationError, match="not asyncio's: use create"):
        asyncio.run(inbox.create_async())
    inbox.create()
    with inbox._sync_engine("").connect() as connection, pytest.raises(TypeError, match="not int"):
        inbox.once(connection, 17).__enter__()


def test_the_pages_examples_have_one_effect(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)[:2]:
        exec(compile(block, PAGE.name, "exec"), names)  # noqa: S102  (that is the test)
    with names["engine"].begin() as connection:
        connection.execute(text("CREATE TABLE points (body BLOB)"))
    one, other = (ReceivedMessage("shop.orders", 0, offset, None, b"10") for offset in (1, 2))
    listeners = [names["give_points"], names["listener"]]
    assert [listener(message) for message in (one, other, one, other) for listener in listeners] == [SUCCESS] * 8
    with names["engine"].connect() as connection:
        assert connection.scalar(text("SELECT COUNT(*) FROM points")) == 2
    names["engine"].dispose()


@pytest.mark.parametrize(
    "kind", [one for one in (*ALL, *DJANGO_EACH[1:]) if one != "mariadb-serializable"], indirect=True
)
def test_a_row_is_of_the_handlers_own_connection(points: Points) -> None:
    """Under MySQL's SERIALIZABLE whoever looks waits for who writes. Times of Django's SQLite are not SQLAlchemy's."""
    with points.engine.begin() as connection, points.inbox.once(connection, "a"):
        assert own_rows(connection, points) == 1
        assert points.rows() == []


def own_rows(connection: Connection, points: Points) -> int:
    return len(connection.execute(select(points.inbox.table)).all())
