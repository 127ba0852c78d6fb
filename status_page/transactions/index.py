"""What lies in ``cb.status`` and ``cb.parked`` now, in a private SQLite: found at once, however much it is.

SQLite keeps it in a temporary file of its own, which is gone with the process however that ends, and 16 MiB of it in
memory. No payloads are kept. Each list can be asked for in the order of age by group, topic, both or neither, and by
transaction id; an index stands behind each of these, so that a page costs the rows that it shows.
"""

import sqlite3
import threading
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from checkback.exceptions import ProtocolError
from checkback.operations.in_doubt import MOST_REMARK_BYTES, InDoubt
from checkback.operations.parked import ParkedMessage
from checkback.wire.protocol import MAX_GROUP_BYTES, MAX_NUMBERED_ID_BYTES, MAX_TOPIC_BYTES, HalfPosition
from status_page.transactions.schema import PARKED, SCHEMA, STATUS, UNDECIDED, UNDELIVERABLE, UNKEPT

COUNTED = 10_000
"""Where no total is kept, so many are counted at most."""
MOST_ROWS = 500
"""Of one page; the index gives one more, so that one sees whether there is another page."""
_MOST_INTEGER = 2**63 - 1
_REASON_CHARACTERS = 1_000
_STEPS = 50_000_000
"""Of SQLite's virtual machine, about a second: no question that a page asks needs a hundredth of it."""


class Parked(NamedTuple):
    """A message that waits for an operator, without its content."""

    transaction_id: str
    group: str
    topic: str
    half: HalfPosition
    reason: str
    answer: str
    """The last answer to its checks; empty: not known."""
    parked_ms: int
    key_bytes: int | None
    """None: it has no key."""
    value_bytes: int | None
    """None: it has no value, or ``cb.parked`` has its head only."""
    kept: bool
    """Whether the job has it; False for one that was too large to be kept beside its reason."""
    undecided: bool
    """False for one that was committed, but could not be delivered."""


class RowFilter(NamedTuple):
    """Which rows of a list somebody wants to see; all of them unless it says something."""

    group: str = ""
    topic: str = ""
    before_ms: int = 0
    """Only those from before this time; 0: all."""


ALL = RowFilter()


class Cursor(NamedTuple):
    """A place in a list that is ordered by age; a page begins behind it, or ends before it."""

    since_ms: int
    partition: int
    offset: int
    transaction_id: str


class Total(NamedTuple):
    """How many there are."""

    number: int
    exact: bool = True
    """False: at least so many."""


class RowCount(NamedTuple):
    """How many of one group and topic there are of one kind."""

    group: str
    topic: str
    kind: str
    number: int


class Index:
    """Rows of both topics, safe to use from several threads.

    Raises:
        sqlite3.Error: from any method; the disk is full, for example. :meth:`clear` begins again.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._connection: sqlite3.Connection | None = None
        self.reads = 0
        """Rows that pages have been given, for tests: what a page costs must not depend on how many there are."""
        self.clear()

    def clear(self) -> None:
        """Forget all."""
        with self._lock:
            self.close()
            connection = sqlite3.connect("", isolation_level=None, check_same_thread=False)
            connection.executescript(SCHEMA)
            self._connection = connection

    def close(self) -> None:
        """Give the file back. What is asked after that finds nothing."""
        with self._lock:
            connection, self._connection = self._connection, None
            if connection is not None:
                connection.close()

    def take_status(self, rows: Iterable[tuple[HalfPosition, InDoubt | None]]) -> None:
        """Take in what records of ``cb.status`` say, in their order; None: no longer in doubt."""
        newest = {half: row if row and _storable_status(row) else None for half, row in rows if _fits(*half)}
        gone = [half for half, row in newest.items() if row is None]
        kept = [_status_columns(row) for row in newest.values() if row is not None]
        self._write(STATUS.put, kept, "DELETE FROM status WHERE partition = ? AND offset = ?", gone)

    def take_parked(self, rows: Iterable[tuple[HalfPosition, str, ParkedMessage | None]]) -> None:
        """Take in what records of ``cb.parked`` say: place, id, and the message, or None when it waits no longer."""
        newest = {
            (*half, name): row if row and _storable_parked(row) else None
            for half, name, row in rows
            if _fits(*half) and _named(name)
        }
        gone = [place for place, row in newest.items() if row is None]
        kept = [_parked_columns(row) for row in newest.values() if row is not None]
        self._write(PARKED.put, kept, "DELETE FROM parked WHERE partition = ? AND offset = ? AND id = ?", gone)

    def in_doubt(
        self, wanted: RowFilter = ALL, limit: int = 100, after: Cursor | None = None, before: Cursor | None = None
    ) -> list[InDoubt]:
        """The oldest ones first."""
        return [_status_row(row) for row in self._page(STATUS.name, wanted, limit, after, before)]

    def parked(
        self, wanted: RowFilter = ALL, limit: int = 100, after: Cursor | None = None, before: Cursor | None = None
    ) -> list[Parked]:
        """Those first that have waited longest."""
        return [_parked_row(row) for row in self._page(PARKED.name, wanted, limit, after, before)]

    def in_doubt_called(self, text: str, limit: int = 100) -> list[InDoubt]:
        """Those whose transaction id begins so, or whose half message lies there (``3:4711``)."""
        return [_status_row(row) for row in self._called(STATUS.name, text, limit)]

    def parked_called(self, text: str, limit: int = 100) -> list[Parked]:
        """Likewise."""
        return [_parked_row(row) for row in self._called(PARKED.name, text, limit)]

    def in_doubt_at(self, half: HalfPosition) -> InDoubt | None:
        """The one whose half message lies there."""
        return next((_status_row(row) for row in self._at(STATUS.name, half, 1)), None)

    def parked_at(self, half: HalfPosition) -> list[Parked]:
        """Those whose half message lies there: of a transaction of several messages there may be more than one."""
        return [_parked_row(row) for row in self._at(PARKED.name, half, MOST_ROWS)]

    def total(self, of: str, wanted: RowFilter = ALL) -> Total:
        """How many of a list (``status``, ``parked``) are wanted."""
        where, values = _condition(wanted)
        if not wanted.before_ms:
            (row,) = self._read(f"SELECT coalesce(sum(number), 0) FROM tallies WHERE list = ?{where}", (of, *values))  # noqa: S608  (our own names only)
            return Total(row[0])
        counted = f"SELECT count(*) FROM (SELECT 1 FROM {of} WHERE 1{where} LIMIT {COUNTED + 1})"  # noqa: S608  (our own names only)
        (row,) = self._read(counted, values)
        return Total(min(row[0], COUNTED), row[0] <= COUNTED)

    def tallies(self, of: str) -> list[RowCount]:
        """How many of a list there are by group, topic and kind."""
        rows = self._read("SELECT grp, topic, kind, number FROM tallies WHERE list = ? AND number > 0", (of,))
        return [RowCount(*row) for row in rows]

    def _write(self, put: str, kept: Sequence[tuple[Any, ...]], drop: str, gone: Sequence[tuple[Any, ...]]) -> None:
        if not (kept or gone):
            return
        with self._lock:
            if self._connection is None:
                return
            self._connection.execute("BEGIN")
            self._connection.executemany(drop, gone)
            self._connection.executemany(put, kept)
            self._connection.execute("COMMIT")

    def _page(
        self, table: str, wanted: RowFilter, limit: int, after: Cursor | None, before: Cursor | None
    ) -> list[tuple[Any, ...]]:
        where, values = _condition(wanted)
        edge = after or before
        if edge is not None and not _fits(*edge[:3]):
            return []
        compared = "" if edge is None else f" AND {_ORDER} {'>' if after else '<'} (?, ?, ?, ?)"
        order = _BACKWARDS if before and not after else _FORWARDS
        rows = self._read(
            f"SELECT * FROM {table} WHERE 1{where}{compared} ORDER BY {order} LIMIT ?",  # noqa: S608  (our own names only)
            (*values, *(edge or ()), min(limit, MOST_ROWS + 1)),
        )
        return rows if order is _FORWARDS else rows[::-1]

    def _called(self, table: str, text: str, limit: int) -> list[tuple[Any, ...]]:
        found = self._at(table, place_in(text), limit)
        rows = self._read(
            f"SELECT * FROM {table} WHERE id >= ? AND id < ? ORDER BY id, partition, offset LIMIT ?",  # noqa: S608  (our own names only)
            (_utf8(text), _utf8(text) + "\U0010ffff", min(limit, MOST_ROWS + 1)),
        )
        return [*found, *(row for row in rows if row not in found)]

    def _at(self, table: str, half: HalfPosition | None, limit: int) -> list[tuple[Any, ...]]:
        if half is None or not _fits(*half):
            return []
        at = f"SELECT * FROM {table} WHERE partition = ? AND offset = ? LIMIT ?"  # noqa: S608  (our own names only)
        return self._read(at, (*half, limit))

    def _read(self, question: str, values: Sequence[object]) -> list[tuple[Any, ...]]:
        with self._lock:
            if self._connection is None:
                return [(0,)] if "count(" in question or "sum(" in question else []
            self._connection.set_progress_handler(lambda: 1, _STEPS)
            try:
                rows = self._connection.execute(question, values).fetchall()
            finally:
                self._connection.set_progress_handler(None, 0)
            self.reads += len(rows)
            return rows


_ORDER = "(since_ms, partition, offset, id)"
_FORWARDS = "since_ms, partition, offset, id"
_BACKWARDS = "since_ms DESC, partition DESC, offset DESC, id DESC"


def cursor_of(row: InDoubt | Parked) -> Cursor:
    """Where a row stands in its list."""
    since_ms = row.ingested_ms if isinstance(row, InDoubt) else row.parked_ms
    return Cursor(since_ms, *row.half, row.transaction_id)


def _condition(wanted: RowFilter) -> tuple[str, list[object]]:
    columns = (("grp = ?", _utf8(wanted.group)), ("topic = ?", _utf8(wanted.topic)), ("since_ms < ?", wanted.before_ms))
    given = [(column, value) for column, value in columns if value]
    return "".join(f" AND {column}" for column, _ in given), [value for _, value in given]


def _utf8(text: str) -> str:
    """What SQLite can be asked for: it has no surrogates, and finds none."""
    return text.encode(errors="replace").decode()


def place_in(text: str) -> HalfPosition | None:
    """The place that a text names, as ``3:4711``; None if it names none."""
    try:
        return HalfPosition.parse(text)
    except ProtocolError:
        return None


def _fits(*numbers: int) -> bool:
    return all(0 <= number <= _MOST_INTEGER for number in numbers)


def _named(text: str, most: int = MAX_NUMBERED_ID_BYTES) -> bool:
    try:
        return len(text.encode()) <= most
    except UnicodeEncodeError:
        return False


def _names_fit(row: InDoubt | ParkedMessage) -> bool:
    """Whether the job could have written these: anybody may write to a topic."""
    return _named(row.transaction_id) and _named(row.group, MAX_GROUP_BYTES) and _named(row.topic, MAX_TOPIC_BYTES)


def _storable_status(row: InDoubt) -> bool:
    numbers = (
        row.attempt,
        row.check_max,
        row.ingested_ms,
        row.asked_ms,
        row.next_check_ms,
        row.answered_ms,
        row.misses,
    )
    texts = _named(row.last_answer) and _named(row.remark, MOST_REMARK_BYTES)
    return _names_fit(row) and _fits(*row.half, *numbers) and texts


def _storable_parked(row: ParkedMessage) -> bool:
    return _names_fit(row) and _fits(*row.half, max(row.time_ms, 0))


def _status_columns(row: InDoubt) -> tuple[Any, ...]:
    named = (row.transaction_id, row.group, row.topic)
    attempts = (row.attempt, row.check_max, row.asked_ms, row.next_check_ms)
    of_answer = (row.answered_ms, row.misses, row.remark)
    return (*row.half, *named, row.ingested_ms, row.last_answer, *attempts, *of_answer)


def _status_row(row: tuple[Any, ...]) -> InDoubt:
    partition, offset, name, group, topic, since_ms, answer, attempt, check_max, asked_ms, next_ms, *of_answer = row
    half = HalfPosition(partition, offset)
    return InDoubt(name, group, topic, half, attempt, check_max, since_ms, asked_ms, answer, next_ms, *of_answer)


def _parked_columns(row: ParkedMessage) -> tuple[Any, ...]:
    kind = UNDECIDED if row.undecided else UNDELIVERABLE if row.kept else UNKEPT
    sizes = [None if part is None else len(part) for part in (row.key, row.value)]
    reasons = (row.reason[:_REASON_CHARACTERS], row.answer[:_REASON_CHARACTERS])
    return (*row.half, row.transaction_id, row.group, row.topic, max(row.time_ms, 0), kind, *reasons, *sizes)


def _parked_row(row: tuple[Any, ...]) -> Parked:
    partition, offset, name, group, topic, since_ms, kind, reason, answer, key_bytes, value_bytes = row
    half = HalfPosition(partition, offset)
    held = (key_bytes, value_bytes, kind != UNKEPT, kind == UNDECIDED)
    return Parked(name, group, topic, half, reason, answer, since_ms, *held)
