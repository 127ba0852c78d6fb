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
from checkback.django.databases import connection_of, moment, of_moment, refuse_inside, table_of
from checkback.exceptions import CheckbackError, ConfigurationError
from checkback.wire.message_id import MessageId, identified
from checkback.wire.protocol import MAX_GROUP_BYTES

M = TypeVar("M")

TABLE = "checkback_inbox"
_AHEAD_SECONDS = 3_600
"""That a producer's clock may be ahead, as Kafka does (``message.timestamp.after.max.ms``)."""


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
        if not 0 < len(group.encode()) <= MAX_GROUP_BYTES or "\0" in group:
            raise ConfigurationError(f"A group's name has 1 to {MAX_GROUP_BYTES} bytes; {group!r:.80} does not fit.")
        self._group = group
        self._using = using
        self._counting = threading.Lock()
        self._passed_over = 0

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

        Call it first there. While another transaction that has written the same row is running, PostgreSQL waits for
        its end. An error in the block marks the ``atomic`` for rollback, also when somebody handles it: row and effect
        are gone together. A listener that says *later* must not commit: raise instead.

        Args:
            message: as the consumer got it, or its id as text.

        Raises:
            ConfigurationError: there is no ``atomic``; nothing was written.
            TypeError: this is not a message.
        """
        connection = connection_of(self._using)
        if not connection.in_atomic_block:
            raise ConfigurationError(
                f"once() belongs inside 'with transaction.atomic(using={self._using!r})': outside, the memory of the "
                "message would be committed without its effect. handler() does it all."
            )
        try:
            yield self._take(connection, message)
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
        one = identified(message)
        with connection.cursor() as cursor:
            cursor.execute(
                f"INSERT INTO {table_of(connection, TABLE)} (consumer_group, message_id, received_at) "  # noqa: S608  (a constant)
                "VALUES (%s, %s, %s) ON CONFLICT DO NOTHING",
                [self._group, one.id, moment(connection, datetime.now(UTC))],
            )
            first = cursor.rowcount == 1 and not self._known_by_place(connection, cursor, one)
        if not first:
            with self._counting:
                self._passed_over += 1
        return first

    def _known_by_place(self, connection: Any, cursor: Any, one: MessageId) -> bool:
        """Whether it is in by its place alone, as before 0.1.0; not what was written after such a row was."""
        received = self._received(connection, cursor, one.place) if one.place else None
        return received is not None and one.written_ms / 1000 <= received.timestamp() + _AHEAD_SECONDS

    def _received(self, connection: Any, cursor: Any, name: str) -> datetime | None:
        cursor.execute(
            f"SELECT received_at FROM {table_of(connection, TABLE)} "  # noqa: S608  (a constant)
            "WHERE consumer_group = %s AND message_id = %s",
            [self._group, name],
        )
        found = cursor.fetchone()
        return None if found is None else of_moment(found[0])

    def _refuse_lost(self, connection: Any, message: Any) -> None:
        """Raise unless the COMMIT to come will commit the row, and what was done beside it."""
        lost = connection.needs_rollback
        if not lost:  # a swallowed error of a statement ends PostgreSQL's transaction: then this look raises
            with connection.cursor() as cursor:
                lost = self._received(connection, cursor, identified(message).id) is None
        if lost:
            raise CheckbackError(
                "The handler's database transaction is marked for rollback, or was ended inside the handler: its "
                "effect is gone, and the message comes again. Let errors of the database leave the handler, or keep "
                "them in an atomic() of their own."
            )


def prune_inbox(using: str, older_than: timedelta, *, group: str | None = None, batch: int = 1_000) -> int:
    """Delete rows of that age, of one group or of all; returns their number.

    Raises:
        ConfigurationError: ``older_than`` or ``batch`` is not above zero.
    """
    if older_than <= timedelta(0):
        raise ConfigurationError(f"older_than is {older_than}, must be longer than a message may come again.")
    if batch < 1:
        raise ConfigurationError(f"batch is {batch}, must be at least 1.")
    connection = connection_of(using)
    table, key = table_of(connection, TABLE), "consumer_group, message_id"
    ours = "received_at < %s" if group is None else "consumer_group = %s AND received_at < %s"
    # PostgreSQL: those that another process is pruning are left to it
    locked = " FOR UPDATE SKIP LOCKED" if connection.vendor == "postgresql" else ""
    statement = f"DELETE FROM {table} WHERE ({key}) IN (SELECT {key} FROM {table} WHERE {ours} LIMIT {batch:d}{locked})"  # noqa: S608  (constants)
    aged = moment(connection, datetime.now(UTC) - older_than)
    pruned, deleted = 0, batch
    while deleted == batch:
        with connection.cursor() as cursor:
            cursor.execute(statement, [aged] if group is None else [group, aged])
            deleted = cursor.rowcount
        pruned += deleted
    return pruned
