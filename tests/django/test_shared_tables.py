"""A Django service and one with SQLAlchemy in one database: the same tables, whoever has made them."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connections, transaction
from sqlalchemy import Engine, create_engine, inspect

from checkback import TransactionBlockedError
from checkback.django import DjangoInbox
from checkback.django.models import LoggedTransaction, ReceivedByGroup
from checkback.sql.inbox import SqlInbox
from checkback.sql.transaction_log import SqlTransactionLog
from tests.django.shop import DjangoShop, drop_tables, make_tables, question


@pytest.fixture
def engine(shop: DjangoShop, request: pytest.FixtureRequest, kind: str) -> Iterator[Engine]:
    name = connections.databases["default"]["NAME"]
    server = "mariadb" if kind.startswith("mariadb") else "postgres"
    made = create_engine(f"sqlite:///{name}" if kind == "sqlite" else request.getfixturevalue(server))
    yield made
    made.dispose()


def shape(engine: Engine) -> dict[str, Any]:
    looking = inspect(engine)
    return {
        table: (
            [(one["name"], str(one["type"]), one["nullable"]) for one in looking.get_columns(table)],
            looking.get_pk_constraint(table)["constrained_columns"],
            [(one["name"], one["column_names"]) for one in looking.get_indexes(table)],
        )
        for table in ("checkback_transactions", "checkback_inbox")
    }


def test_both_make_the_same_tables(shop: DjangoShop, engine: Engine) -> None:
    ours = shape(engine)
    drop_tables("default")
    SqlTransactionLog(engine).create_table()
    SqlInbox(engine, "points").create()
    assert shape(engine) == ours
    make_tables("default")  # beside those that are there
    assert shape(engine) == ours


def test_each_finds_what_the_other_has_written(shop: DjangoShop, engine: Engine) -> None:
    theirs = SqlTransactionLog(engine)
    shop.sell(1)
    assert theirs.check_local_transaction(question(1)) == "commit"
    with engine.begin() as connection:
        theirs.record(connection, "tx-2")
    assert shop.check(2) == "commit"
    assert [shop.check(3), theirs.check_local_transaction(question(4))] == ["rollback", "rollback"]
    with pytest.raises(TransactionBlockedError), engine.begin() as connection:
        theirs.record(connection, "tx-3")
    with pytest.raises(TransactionBlockedError):
        shop.sell(4)


def test_a_message_is_once_in_both(shop: DjangoShop, engine: Engine) -> None:
    ours, theirs = DjangoInbox("points"), SqlInbox(engine, "points")
    firsts = []
    with transaction.atomic(), ours.once("tx-1") as first:
        firsts.append(first)
    with engine.begin() as connection, theirs.once(connection, "tx-1") as first:
        firsts.append(first)
    with engine.begin() as connection, theirs.once(connection, "tx-2") as first:
        firsts.append(first)
    with transaction.atomic(), ours.once("tx-2") as first:
        firsts.append(first)
    assert firsts == [True, False, True, False]


def test_the_models_read_what_both_have_written(shop: DjangoShop, engine: Engine) -> None:
    shop.sell(1)
    with engine.begin() as connection:
        SqlTransactionLog(engine).record(connection, "tx-2")
    with transaction.atomic(), DjangoInbox("points").once("tx-1"):
        pass
    with engine.begin() as connection, SqlInbox(engine, "points").once(connection, "tx-2"):
        pass
    recorded = LoggedTransaction.objects.order_by("transaction_id")
    assert [str(one) for one in recorded] == ["tx-1: committed", "tx-2: committed"]
    assert abs(recorded[0].recorded_at - recorded[1].recorded_at).total_seconds() < 60
    received = ReceivedByGroup.objects.order_by("message_id")
    assert [str(one) for one in received] == ["points: tx-1", "points: tx-2"]
    assert abs(received[0].received_at - received[1].received_at).total_seconds() < 60
