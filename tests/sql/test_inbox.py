"""The inbox on real databases: SQLite in a file, PostgreSQL and MariaDB, at several isolation levels.

``SqlInbox``; and as another face of the same points, ``DjangoInbox``.
"""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import create_engine
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from checkback import ConfigurationError
from checkback.consumer import ReceivedMessage
from tests.place import wait_until
from tests.sql.databases import ALL, DJANGO_EACH, ERRORS, MARIADB, SNAPSHOTS, waits
from tests.sql.points import HandlerError, Points

SERIALIZATION_FAILURE = "40001"


RACES = 40

not_djangos = pytest.mark.parametrize("kind", ALL, indirect=True)
"""What Django has in another way, or not at all: tests/django."""


@pytest.fixture(params=[*ALL, *DJANGO_EACH])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


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


@not_djangos
def test_several_messages_are_one_statement(points: Points) -> None:
    points.take("b")
    with points.engine.begin() as connection:
        with points.inbox.once_each(connection, ["c", "b", "a", "c"]) as new:
            assert new == ["c", "a"]
        with points.inbox.once_each(connection, []) as new:
            assert new == []
    assert points.rows() == [("points", "a"), ("points", "b"), ("points", "c")]
    assert points.inbox.passed_over == 2


@not_djangos
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


@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_of_two_at_once_the_second_waits_for_the_first_and_goes_by_its_end(
    points: Points, kind: str, end: str, thread: ThreadPoolExecutor
) -> None:
    with points.engine.connect() as connection:
        with points.inbox.once(connection, "a") as first:
            assert first
            points.give(connection, "a")
        taking = thread.submit(points.take, "a")
        wait_until(waits(points.engine, taking), "the wait")
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
        except ERRORS:
            return None

    messages = [f"{number:03d}" for number in range(RACES)]
    for message in messages:
        other = thread.submit(take, message)
        assert sorted([take(message) is True, other.result(60) is True]) == [False, True]
    assert points.given() == messages


@pytest.mark.parametrize("kind", ["postgresql-read-committed", *MARIADB], indirect=True)
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
