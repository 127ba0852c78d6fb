"""What becomes of a sale, as the dice have it, and how it loses what it has recorded."""

import random
import threading
import time
from collections.abc import Callable
from contextlib import closing, suppress
from enum import StrEnum
from typing import Any

import pymysql

from checkback.dbapi.states import mysql_code
from torture.shops.kinds import Kind, Where
from torture.shops.selling import Sale, mysql_options

_DEADLOCK = 1213
_WEIGHT = 20
"""Rows that the other one has written: InnoDB has the one go on that has written more."""


class Fate(StrEnum):
    """What a sale does."""

    COMMITS = "committed"
    LOSES_OP = "committed, the op is never written"
    SLOW = "committed, the transaction longer than the time-out and several checks"
    ROLLS_BACK = "rolled back by Rollback"
    FAILS = "the block raises"
    LATE = "the transaction begins when a check may have come"
    SWALLOWS = "an error of the database is swallowed"


_MIX = {
    Fate.COMMITS: 0.72,
    Fate.LOSES_OP: 0.08,
    Fate.SLOW: 0.03,
    Fate.ROLLS_BACK: 0.08,
    Fate.FAILS: 0.05,
    Fate.LATE: 0.01,
    Fate.SWALLOWS: 0.03,
}
_LEAST_SECONDS, _MOST_SECONDS = 2.5, 8.0
_LATE_SECONDS = 3.0


def draw(chance: random.Random) -> Fate:
    """One."""
    return chance.choices(list(_MIX), weights=list(_MIX.values()))[0]


def linger(chance: random.Random) -> None:
    """For longer than a check waits to be asked, and not always longer than a second one."""
    time.sleep(chance.uniform(_LEAST_SECONDS, _MOST_SECONDS))


def come_late(chance: random.Random) -> None:
    """Before the database transaction: then most have been blocked."""
    time.sleep(_LATE_SECONDS)
    linger(chance)


def spoiler(kind: Kind, url: str) -> Callable[[Sale, Callable[[], object]], bool]:
    """What has a sale lose its record, and says whether it did; the second argument is the order, once more."""
    return _Deadlocks(url) if kind.where is Where.MARIADB else _repeat


def _repeat(_sale: Sale, order: Callable[[], object]) -> bool:
    """PostgreSQL forgets all of a transaction in which a statement has failed: here one whose row is there."""
    try:
        order()
    except Exception as error:  # noqa: BLE001  (of whatever driver)
        return _duplicate(error)
    return False


def _duplicate(error: BaseException | None) -> bool:
    """Whether it is that error, and not a connection that was lost."""
    while error is not None:
        if getattr(error, "sqlstate", None) == "23505":
            return True
        error = getattr(error, "orig", None) or error.__cause__
    return False


class _Deadlocks:
    """InnoDB rolls back the whole transaction that loses a deadlock, and has the next statement begin another."""

    def __init__(self, url: str) -> None:
        self._options = mysql_options(url)

    def __call__(self, sale: Sale, _order: Callable[[], object]) -> bool:
        ours, theirs = (f"{sale.transaction_id}-{name}" for name in ("a", "b"))
        touch = "UPDATE shelf SET id = id WHERE id = %s"
        lock = "SELECT id FROM shelf WHERE id = %s FOR UPDATE"
        with closing(pymysql.connect(**self._options)) as other:
            _run(other, "INSERT INTO shelf VALUES (%s), (%s)", [ours, theirs])
            other.commit()
            weight = [f"{sale.transaction_id}-{number}" for number in range(_WEIGHT)]
            _run(other, f"INSERT INTO shelf VALUES {', '.join(['(%s)'] * _WEIGHT)}", weight)  # noqa: S608  (ours)
            _run(other, lock, [theirs])
            sale.execute(lock, [ours])
            crossing = threading.Thread(target=_quietly, args=(other, touch, ours))
            crossing.start()
            try:
                sale.execute(lock, [theirs])
            except Exception as error:  # noqa: BLE001  (of whatever driver)
                return bool(mysql_code(getattr(error, "orig", error)) == _DEADLOCK)
            finally:
                crossing.join(1)
                with suppress(pymysql.Error):
                    other.rollback()
        return False


def _run(connection: Any, statement: str, values: list[str]) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement, values)


def _quietly(connection: Any, statement: str, value: str) -> None:
    with suppress(pymysql.Error):
        _run(connection, statement, [value])
