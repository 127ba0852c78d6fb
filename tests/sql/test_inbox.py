"""The inbox on real databases: SQLite in a file, and a PostgreSQL of its own, at several isolation levels."""

import asyncio
import re
import threading
import uuid
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, MetaData, create_engine, inspect, select, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session, scoped_session, sessionmaker
from sqlalchemy.pool import StaticPool

from checkback import ConfigurationError
from checkback.consumer import ConsumeResult, ReceivedMessage
from checkback.sql.inbox import SqlInbox
from tests.place import wait_until
from tests.sql.databases import POSTGRESQL, SNAPSHOTS, SQLITE, engine_of

PAGE = Path(__file__).parents[2] / "docs" / "delivery.md"

SUCCESS, LATER = ConsumeResult.SUCCESS, ConsumeResult.LATER

SERIALIZATION_FAILURE = "40001"
RACES = 40


class Points:
    """A service with one table of its own beside the inbox."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        suffix = uuid.uuid4().hex[:8]
        self.inbox_table, self.table = f"inbox_{suffix}", f"points_{suffix}"
        self.inbox = self.inbox_of("points")
        self.inbox.create()
        with engine.begin() as connection:
            connection.execute(text(f"CREATE TABLE {self.table} (given VARCHAR(64))"))

    def inbox_of(self, group: str) -> SqlInbox:
        return SqlInbox(self.engine, group, table=self.inbox_table)

    def give(self, connection: Any, message: Any) -> None:
        statement = text(f"INSERT INTO {self.table} VALUES (:given)")  # noqa: S608  (ours)
        connection.execute(statement, {"given": str(message)[:64]})

    def take(self, message: Any) -> bool:
        with self.engine.begin() as connection, self.inbox.once(connection, message) as first:
            if first:
                self.give(connection, message)
        return first

    def given(self) -> list[str]:
        with self.engine.connect() as connection:
            return list(connection.scalars(text(f"SELECT given FROM {self.table} ORDER BY 1")))  # noqa: S608  (ours)

    def rows(self) -> list[tuple[str, str]]:
        columns = (self.inbox.table.c.consumer_group, self.inbox.table.c.message_id)
        with self.engine.connect() as connection:
            return [(row[0], row[1]) for row in connection.execute(select(*columns).order_by(*columns))]


@pytest.fixture(params=[*SQLITE, *POSTGRESQL])
def kind(request: pytest.FixtureRequest) -> str:
    """Database and isolation level; a test that is for some of them only parametrizes this itself."""
    return str(request.param)


@pytest.fixture
def points(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Points]:
    engine = engine_of(kind, request, tmp_path)
    yield Points(engine)
    engine.dispose()


@pytest.fixture
def thread() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as executor:
        yield executor


def test_a_message_that_comes_again_is_passed_over_and_counted(points: Points) -> None:
    assert [points.take("a"), points.take("a"), points.take("b"), points.take("a")] == [True, False, True, False]
    assert points.given() == ["a", "b"]
    assert points.inbox.passed_over == 2


def test_each_group_has_an_effect_of_its_own(points: Points) -> None:
    points.take("a")
    with points.engine.begin() as connection, points.inbox_of("mail").once(connection, "a") as first:
        assert first
    assert points.rows() == [("mail", "a"), ("points", "a")]


class HandlerError(Exception):
    """What a handler may raise."""


def fail_in(points: Points, work: Any) -> None:
    with points.inbox.once(work, "a"):
        points.give(work, "a")
        raise HandlerError


def foreign(offset: int, written_ms: int) -> ReceivedMessage:
    """Without a ``cb-id``."""
    return ReceivedMessage("orders", 0, offset, None, b"", (), written_ms)


def test_a_message_of_a_topic_that_was_made_again_is_another(points: Points) -> None:
    now_ms = round(datetime.now(UTC).timestamp() * 1000)
    assert [points.take(foreign(0, now_ms)), points.take(foreign(0, now_ms))] == [True, False]
    assert points.take(foreign(0, now_ms + 1))


def test_what_was_received_before_ids_had_times_is_known(points: Points) -> None:
    """By the place alone, but not what was written after it was received."""
    now_ms = round(datetime.now(UTC).timestamp() * 1000)
    for offset in range(3):
        points.take(f"orders:0:{offset}")
    ahead_ms, later_ms = now_ms + 60_000, now_ms + 7_200_000
    messages = [foreign(0, now_ms - 1_000), foreign(1, ahead_ms), foreign(2, later_ms), foreign(3, now_ms)]
    with points.engine.begin() as connection, points.inbox.once_each(connection, messages) as new:
        assert new == messages[2:]
    assert points.inbox.passed_over == 2
    assert not points.take(messages[2])


def test_an_error_of_the_handler_rolls_row_and_effect_back(points: Points) -> None:
    with pytest.raises(HandlerError), points.engine.begin() as connection:
        fail_in(points, connection)
    assert (points.rows(), points.given()) == ([], [])
    assert points.take("a")


@pytest.mark.parametrize("of", ["connection", "session"])
def test_an_error_that_is_handled_inside_the_transaction_leaves_nothing_to_commit(points: Points, of: str) -> None:
    work: Any = points.engine.connect() if of == "connection" else Session(points.engine)
    with work, work.begin(), pytest.raises(HandlerError):
        fail_in(points, work)
    assert (points.rows(), points.given()) == ([], [])


def test_a_process_that_dies_in_the_handler_leaves_nothing(points: Points) -> None:
    connection = points.engine.connect()
    with points.inbox.once(connection, "a"):
        points.give(connection, "a")
    connection.invalidate()
    connection.close()
    assert (points.rows(), points.given()) == ([], [])
    assert points.take("a")


def test_a_session_works_too_and_a_scoped_one(points: Points) -> None:
    with Session(points.engine) as session, session.begin(), points.inbox.once(session, "a") as first:
        assert first
    scoped = scoped_session(sessionmaker(points.engine))
    with scoped.begin(), points.inbox.once(scoped, "a") as first:
        assert not first
    scoped.remove()


def test_several_messages_are_one_statement(points: Points) -> None:
    points.take("b")
    with points.engine.begin() as connection:
        with points.inbox.once_each(connection, ["c", "b", "a", "c"]) as new:
            assert new == ["c", "a"]
        with points.inbox.once_each(connection, []) as new:
            assert new == []
    assert points.rows() == [("points", "a"), ("points", "b"), ("points", "c")]
    assert points.inbox.passed_over == 2


def test_a_connection_in_autocommit_mode_is_refused_and_nothing_is_written(points: Points) -> None:
    engine = create_engine(points.engine.url, isolation_level="AUTOCOMMIT")
    with (
        engine.connect() as connection,
        pytest.raises(ConfigurationError, match="autocommit"),
        points.inbox.once(connection, "a"),
    ):
        pass
    engine.dispose()
    assert points.rows() == []


def waits(points: Points, taking: Future[Any]) -> Callable[[], bool]:
    """Whether it waits for a lock; of SQLite one cannot see it, only that it is not done."""
    if points.engine.dialect.name == "sqlite":
        return taking.running

    def waiting() -> bool:
        with points.engine.connect() as connection:
            found = connection.execute(text("SELECT 1 FROM pg_locks WHERE NOT granted AND locktype = 'transactionid'"))
            return found.first() is not None

    return waiting


@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_of_two_at_once_the_second_waits_for_the_first_and_goes_by_its_end(
    points: Points, kind: str, end: str, thread: ThreadPoolExecutor
) -> None:
    with points.engine.connect() as connection:
        with points.inbox.once(connection, "a") as first:
            assert first
            points.give(connection, "a")
        taking = thread.submit(points.take, "a")
        wait_until(waits(points, taking), 30, "the wait")
        assert not taking.done()
        getattr(connection, end)()
    if end == "commit" and kind in SNAPSHOTS:  # the row is younger than the second one's snapshot
        with pytest.raises(DBAPIError) as raised:
            taking.result(60)
        assert raised.value.orig.sqlstate == SERIALIZATION_FAILURE  # type: ignore[union-attr]  # psycopg's
        assert not points.take("a")
    else:
        assert taking.result(60) is (end == "rollback")
    assert points.given() == ["a"]


def test_two_that_race_have_one_effect(points: Points, thread: ThreadPoolExecutor) -> None:
    start = threading.Barrier(2)

    def take(message: str) -> bool | None:
        start.wait(30)
        try:
            return points.take(message)
        except DBAPIError:
            return None

    messages = [f"{number:03d}" for number in range(RACES)]
    for message in messages:
        other = thread.submit(take, message)
        assert sorted([take(message) is True, other.result(60) is True]) == [False, True]
    assert points.given() == messages


@pytest.mark.parametrize("kind", ["postgresql-read-committed"], indirect=True)
def test_groups_of_messages_in_any_order_do_not_lock_each_other_out(points: Points, thread: ThreadPoolExecutor) -> None:
    start = threading.Barrier(2)

    def take(messages: list[str]) -> int:
        start.wait(30)
        with points.engine.begin() as connection, points.inbox.once_each(connection, messages) as new:
            return len(new)

    for number in range(RACES):
        messages = [f"{number}-{one}" for one in range(50)]
        other = thread.submit(take, messages[::-1])
        assert sorted([take(messages), other.result(60)]) == [0, 50]


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


def commit(session: Session) -> None:
    session.commit()


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


@pytest.mark.parametrize("kind", ["postgresql-read-committed"], indirect=True)
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
    another: Any = SimpleNamespace(dialect=SimpleNamespace(name="mysql"))
    with pytest.raises(ConfigurationError, match="not on mysql"):
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


def test_a_row_is_of_the_handlers_own_connection(points: Points) -> None:
    with points.engine.begin() as connection, points.inbox.once(connection, "a"):
        assert own_rows(connection, points) == 1
        assert points.rows() == []


def own_rows(connection: Connection, points: Points) -> int:
    return len(connection.execute(select(points.inbox.table)).all())
