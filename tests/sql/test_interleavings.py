"""A local transaction and two checks of it, statement by statement in an order drawn by lot: no answer is wrong."""

import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import SQLAlchemyError

from checkback import CheckbackError, LocalTransactionState
from checkback.sql.transaction_log import SqlTransactionLog
from tests.sql.databases import SERVERS, engine_of
from tests.sql.interleaving import Interleaving
from tests.sql.shop import Shop, question

COMMIT, ROLLBACK, UNKNOWN = LocalTransactionState.COMMIT, LocalTransactionState.ROLLBACK, LocalTransactionState.UNKNOWN
INTERLEAVINGS = int(os.environ.get("CHECKBACK_INTERLEAVINGS", "20"))
"""Of each kind of database: 140 in all. Ten thousand are 1,430."""
SEED = int(os.environ.get("CHECKBACK_INTERLEAVINGS_SEED", "1"))
ENDS = ["commit", "commit", "commit", "rollback", "die"]


@pytest.fixture
def engines(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[list[Engine]]:
    made = [engine_of(kind, request, tmp_path) for _ in range(4)]
    yield made
    for one in made:
        one.dispose()


class Sale:
    """A local transaction, drawn by lot."""

    def __init__(self, dice: random.Random, shop: Shop, engine: Engine, transaction_id: str) -> None:
        self._shop, self._engine, self._id = shop, engine, transaction_id
        self._steps = [self._look] * dice.randrange(3) + [self._record, self._order]
        dice.shuffle(self._steps)
        self._forgives = dice.random() < 0.3
        """Whether it goes on after errors."""
        self._end = dice.choice(ENDS)

    def run(self) -> None:
        with self._engine.connect() as connection:
            try:
                self._run(connection)
            except (CheckbackError, SQLAlchemyError):
                connection.rollback()

    def _run(self, connection: Connection) -> None:
        for step in self._steps:
            try:
                step(connection)
            except (CheckbackError, SQLAlchemyError):
                if not self._forgives:
                    raise
        if self._end == "die":
            connection.invalidate()
        elif self._end == "rollback":
            connection.rollback()
        else:
            connection.commit()

    def _look(self, connection: Connection) -> None:
        """Which makes the snapshot, where there is one."""
        connection.execute(text(f"SELECT COUNT(*) FROM {self._shop.log_table}"))  # noqa: S608  (ours)

    def _record(self, connection: Connection) -> None:
        self._shop.log.record(connection, self._id)

    def _order(self, connection: Connection) -> None:
        self._shop.order(connection, self._id)


def asking(log: SqlTransactionLog, transaction_id: str) -> Callable[[], LocalTransactionState]:
    def ask() -> LocalTransactionState:
        try:
            return log.check_local_transaction(question(transaction_id))
        except SQLAlchemyError:
            return UNKNOWN  # as an endpoint does

    return ask


@pytest.mark.parametrize("kind", SERVERS)
def test_no_interleaving_makes_a_check_answer_what_does_not_come_true(kind: str, engines: list[Engine]) -> None:
    shop = Shop(engines[0])
    answers: dict[tuple[bool, LocalTransactionState], int] = {}
    logs = [SqlTransactionLog(one, table=shop.log_table, lock_timeout_ms=1_000) for one in engines[1:3]]
    interleaving = Interleaving(engines[1:])
    for number in range(INTERLEAVINGS):
        dice = random.Random(f"{SEED} {kind} {number}")
        transaction_id = f"tx-{number}"
        sale = Sale(dice, shop, engines[3], transaction_id)
        *given, _ = interleaving.run(dice, [*(asking(log, transaction_id) for log in logs), sale.run])
        sold = shop.sold(transaction_id)
        true = {COMMIT, UNKNOWN} if sold else {ROLLBACK, UNKNOWN}
        assert set(given) <= true, (kind, number, sold, given)
        assert shop.check(transaction_id) is (COMMIT if sold else ROLLBACK), (kind, number)
        assert shop.sold(transaction_id) is sold
        for one in given:
            answers[sold, one] = answers.get((sold, one), 0) + 1
    interleaving.close()
    print(kind, answers)  # noqa: T201  (with -s: how often each came)
    assert answers[True, COMMIT]
    assert answers[False, ROLLBACK]
