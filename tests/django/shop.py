"""An application on Django's connections: the log, one table of its own, and questions about it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.apps import apps
from django.db import connection, connections, transaction

from checkback import CheckRequest, HalfPosition, LocalTransactionState
from checkback.django import DjangoTransactionLog
from checkback.django.making_tables import MakeTables
from examples.django_shop.models import PaidOrder


@contextmanager
def in_place(alias: str, settings: dict[str, Any]) -> Iterator[None]:
    """Have an alias name another database meanwhile, in threads that have no connection yet and in this one."""
    before = connections.databases[alias]
    connections[alias].close()
    connections.databases[alias] = {**before, "OPTIONS": {}, **settings}
    del connections[alias]
    try:
        yield
    finally:
        connections[alias].close()
        connections.databases[alias] = before
        del connections[alias]


def make_tables(alias: str) -> None:
    """As ``migrate`` does."""
    with connections[alias].schema_editor() as editor:
        MakeTables().database_forwards("checkback", editor, None, None)
        editor.create_model(PaidOrder)


def drop_tables(alias: str) -> None:
    """Whatever an earlier test has left."""
    names = [model._meta.db_table for model in (*apps.get_app_config("checkback").get_models(), PaidOrder)]
    with connections[alias].cursor() as cursor:
        for name in names:
            cursor.execute(f"DROP TABLE IF EXISTS {connections[alias].ops.quote_name(name)}")


class DjangoShop:
    """Sells by writing an order beside the row of the log."""

    def __init__(self) -> None:
        self.log = DjangoTransactionLog(lock_timeout_ms=100)

    def order(self, number: int) -> None:
        PaidOrder.objects.create(number=number)

    def sell(self, number: int, statements_before: int = 0) -> None:
        with transaction.atomic(durable=True):
            for _ in range(statements_before):
                PaidOrder.objects.filter(number=-1).exists()
            self.log.record(f"tx-{number}", using="default")
            self.order(number)

    def check(self, number: int, lock_timeout_ms: int = 100) -> LocalTransactionState:
        return DjangoTransactionLog(lock_timeout_ms=lock_timeout_ms).check_local_transaction(question(number))

    def check_apart(self, number: int, lock_timeout_ms: int = 100) -> LocalTransactionState:
        """For another thread, whose connection nobody else would close."""
        try:
            return self.check(number, lock_timeout_ms)
        finally:
            connection.close()

    def sold(self, number: int) -> bool:
        return bool(PaidOrder.objects.filter(number=number).exists())

    def rows(self) -> list[tuple[str, str]]:
        with connection.cursor() as cursor:
            cursor.execute("SELECT transaction_id, state FROM checkback_transactions ORDER BY 1")
            return [(name.decode() if isinstance(name, bytes) else name, state) for name, state in cursor.fetchall()]


def question(number: int) -> CheckRequest:
    return CheckRequest(f"tx-{number}", "shop", "paid", None, b"v", [], HalfPosition(1, 2), 1, 15, 1_000)
