"""The inbox on Django's own connections: the table and the promise of ``SqlInbox``, without SQLAlchemy."""

import functools
import inspect
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from django.db import DEFAULT_DB_ALIAS, transaction

from checkback.consumer.listener import ConsumeResult, is_later
from checkback.consumer.metrics import Figures
from checkback.dbapi.databases import Dialect, execute, execute_each, fetched
from checkback.dbapi.log_table import insert_new
from checkback.dbapi.states import aged, refuse_no_group
from checkback.django.databases import connection_of, dialect_of, refuse_inside
from checkback.exceptions import ConfigurationError, RecordLostError
from checkback.wire.message_id import MAX_BYTES, message_id
from checkback.wire.protocol import MAX_GROUP_BYTES

M = TypeVar("M")

TABLE = "checkback_inbox"


class DjangoInbox:
    """Remembers which messages a consumer group's handlers have dealt with, in the database in which they do.

    A row (group, message id) is written in the handler's own ``atomic``: a message's effect and the memory of it are
    committed together or not at all. One that comes again is passed over, and counted. Serves all threads.

    Only what the database transaction does happens once. An e-mail that the handler sends may go out twice.

    Args:
        group: the consumer group. Each has effects of its own.
        using: the database, by its alias.
    """

    def __init__(self, group: str, *, using: str = DEFAULT_DB_ALIAS) -> None:
        refuse_no_group(group)
        self._group = group
        self._using = using
        self._counting = threading.Lock()
        self._passed_over = 0
        self._table_is_safe = False
        """Whether it has been looked at, once for each process."""

    @property
    def passed_over(self) -> int:
        """How many messages this process has passed over, since their effect was there."""
        return self._passed_over

    def figures(self) -> Figures:
        """The same with the group, for :func:`checkback.consumer.collector_of`."""
        return Figures(self._group, passed_over=self._passed_over)

    @contextmanager
    def once(self, message: Any) -> Iterator[bool]:
        """Note in the ``atomic`` around the call that a message is dealt with; whether that is new.

        ::

            with transaction.atomic(), inbox.once(message) as first:
                if first:
                    Account.objects.update(...)

        Call it first there. While another transaction that has written the same row is running, PostgreSQL, MySQL and
        MariaDB wait for its end. An error in the block marks the ``atomic`` for rollback, also when somebody handles
        it: row and effect are gone together. A listener that says *later* must not commit: raise instead.

        At the block's end a look makes sure that the row is still there: an error of the database that the block
        swallowed may have undone it. What comes after the block is not looked at, so let it be the last in the
        ``atomic``.

        Args:
            message: as the consumer got it, or its id as text.

        Raises:
            ConfigurationError: there is no ``atomic``, or MySQL keeps the table in an engine without transactions;
                nothing was written.
            RecordLostError, django.db.Error: the row is gone at the block's end; the ``atomic`` is rolled back.
            TypeError: this is not a message.
        """
        connection = connection_of(self._using)
        if not connection.in_atomic_block:
            raise ConfigurationError(
                f"once() belongs inside 'with transaction.atomic(using={self._using!r})': outside, the memory of the "
                "message would be committed without its effect. handler() does it all."
            )
        try:
            first = self._take(connection, message)
            yield first
            if first:
                self._refuse_lost(connection, message)
        except BaseException:
            transaction.set_rollback(True, using=self._using)
            raise

    def handler(self, handle: Callable[[M], ConsumeResult | None]) -> Callable[[M], ConsumeResult]:
        """Make a listener of a function that gets a message, and works in an ``atomic`` that this opens.

        It is rolled back when the function raises or returns *later*, committed otherwise, which is *success*. A
        message that is in already does not reach the function, and is *success*. What the function swallows, a failed
        statement or ``set_rollback(True)``, is found before the commit: then the message comes again.

        Raises:
            ConfigurationError: the function is a coroutine: Django has no ``atomic`` for these.
        """
        if inspect.iscoroutinefunction(handle):
            raise ConfigurationError("A handler is a plain 'def': Django's transactions are not for coroutines.")

        @functools.wraps(handle)
        def handled(message: M) -> ConsumeResult:
            connection = connection_of(self._using)
            if not connection.in_atomic_block:
                connection.close_if_unusable_or_obsolete()  # as Django does before each request
            refuse_inside(connection, "the handler", "its effect would not be committed when it says success.")
            with transaction.atomic(using=self._using, durable=True):
                if self._take(connection, message):
                    if is_later(handle(message)):
                        connection.set_rollback(True)
                        return ConsumeResult.LATER
                    self._refuse_lost(connection, message)
            return ConsumeResult.SUCCESS

        return handled

    def prune(self, older_than: timedelta, *, batch: int = 1_000) -> int:
        """Delete this group's rows of that age, ``batch`` in each transaction; returns their number.

        A message that comes again after its row was deleted has its effect again: see :meth:`SqlInbox.prune` for what
        ``older_than`` must be longer than; 30 days, unless topics are kept for longer.

        Raises:
            ConfigurationError: ``older_than`` or ``batch`` is not above zero.
        """
        return prune_inbox(self._using, older_than, group=self._group, batch=batch)

    def _take(self, connection: Any, message: Any) -> bool:
        """Whether the message was not in; it is now."""
        dialect = dialect_of(connection)
        if not self._table_is_safe:
            self._table_is_safe = dialect.refuse_unsafe_table(connection, TABLE)
        insert = (
            f"INSERT INTO {dialect.named(TABLE)} (consumer_group, message_id, received_at) "  # noqa: S608  (a constant)
            f"VALUES (%s, %s, %s){dialect.insert_end}"
        )
        values = [*self._key(dialect, message_id(message)), dialect.stored_moment(datetime.now(UTC))]
        first = insert_new(dialect, connection, insert, values)
        if not first:
            with self._counting:
                self._passed_over += 1
        return first

    def _is_in(self, connection: Any, name: str) -> bool:
        dialect = dialect_of(connection)
        rows = fetched(
            connection,
            f"SELECT 1 FROM {dialect.named(TABLE)} WHERE consumer_group = %s AND message_id = %s",  # noqa: S608  (a constant)
            self._key(dialect, name),
        )
        return bool(rows)

    def _key(self, dialect: Dialect, name: str) -> list[Any]:
        return [dialect.stored_text(self._group, MAX_GROUP_BYTES), dialect.stored_text(name, MAX_BYTES)]

    def _refuse_lost(self, connection: Any, message: Any) -> None:
        """Raise unless the COMMIT to come will commit the row, and what was done beside it.

        A swallowed error of a statement ends PostgreSQL's transaction: then the look raises. After a deadlock InnoDB
        has begun another one without a word, in which the row is not.
        """
        if connection.needs_rollback or not self._is_in(connection, message_id(message)):
            raise RecordLostError(
                "The handler's database transaction is marked for rollback, or was ended inside the handler: its "
                "effect is gone, and the message comes again. Let errors of the database leave the handler, or keep "
                "them in an atomic() of their own."
            )


def prune_inbox(using: str, older_than: timedelta, *, group: str | None = None, batch: int = 1_000) -> int:
    """Delete rows of that age, of one group or of all; returns their number.

    Raises:
        ConfigurationError: ``older_than`` or ``batch`` is not above zero.
    """
    before = aged(older_than, batch)
    connection = connection_of(using)
    dialect = dialect_of(connection)
    if group is not None:
        groups = [dialect.stored_text(group, MAX_GROUP_BYTES)]
    else:
        found = fetched(connection, f"SELECT DISTINCT consumer_group FROM {dialect.named(TABLE)}")  # noqa: S608  (a constant)
        groups = [row[0] for row in found]
    prune = _prune_batch_of_mysql if connection.vendor == "mysql" else _prune_batch
    pruned = 0
    for one in groups:
        deleted = batch
        while deleted == batch:
            with transaction.atomic(using=using):
                deleted = prune(connection, [one, dialect.stored_moment(before)], batch)
            pruned += deleted
    return pruned


def _prune_batch(connection: Any, aged_ones: list[Any], batch: int) -> int:
    table, key = dialect_of(connection).named(TABLE), "consumer_group, message_id"
    # PostgreSQL: those that another process is pruning are left to it
    locked = " FOR UPDATE SKIP LOCKED" if connection.vendor == "postgresql" else ""
    chosen = f"SELECT {key} FROM {table} WHERE {_AGED} LIMIT {batch:d}{locked}"  # noqa: S608  (constants)
    return execute(connection, f"DELETE FROM {table} WHERE ({key}) IN ({chosen})", aged_ones)  # noqa: S608  (likewise)


def _prune_batch_of_mysql(connection: Any, aged_ones: list[Any], batch: int) -> int:
    """Key by key: its DELETE has no LIMIT in a subquery, nor one of its own table."""
    table = dialect_of(connection).named(TABLE)
    chosen = f"SELECT message_id FROM {table} WHERE {_AGED} LIMIT {batch:d} FOR UPDATE SKIP LOCKED"  # noqa: S608  (constants)
    found = fetched(connection, chosen, aged_ones)
    delete = f"DELETE FROM {table} WHERE consumer_group = %s AND message_id = %s"  # noqa: S608  (likewise)
    return execute_each(connection, delete, [[aged_ones[0], row[0]] for row in found]) if found else 0


_AGED = "consumer_group = %s AND received_at < %s"
