"""The log prunes itself with the checks that it answers, once the job has said for how long it asks."""

import logging
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from checkback import CheckRequest, ConfigurationError, LocalTransactionState
from checkback.dbapi.pruning import PAGE, Pruning
from conf.settings import TransactionSettings
from tests.sql.databases import DJANGO_EACH, PLAIN
from tests.sql.shop import Shop, question, shop_of

MONTH, DAY = timedelta(days=30), timedelta(days=1)
LIMIT_MS = TransactionSettings().ask_limit_ms
OLD = 2 * PAGE + 3


@pytest.fixture(params=[*PLAIN, *PLAIN.values(), *DJANGO_EACH])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def shop(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Shop]:
    with shop_of(kind, request, tmp_path) as made:
        for number, age in enumerate((timedelta(days=31), timedelta(days=29))):
            rows = [
                {"transaction_id": f"{name:05}-{number}", "state": "committed", "recorded_at": datetime.now(UTC) - age}
                for name in range(OLD)
            ]
            with made.engine.begin() as connection:
                connection.execute(made.table.insert(), rows)
        yield made


def asked(transaction_id: str, limit_ms: int = LIMIT_MS) -> CheckRequest:
    return replace(question(transaction_id), ask_limit_ms=limit_ms)


def ages(shop: Shop) -> set[str]:
    return {name[-1] for name, state in shop.rows() if state == "committed"}


def test_a_check_prunes_what_is_older_page_by_page(shop: Shop) -> None:
    log = shop.log_with(100, MONTH)
    for _ in range(2 * OLD // PAGE + 1):  # a page at least with each, however slow the machine is
        assert log.check_local_transaction(asked("00001-1")) is LocalTransactionState.COMMIT
        if len(shop.rows()) == OLD:
            break
    assert ages(shop) == {"1"}
    assert len(shop.rows()) == OLD


def test_nothing_is_pruned_before_the_job_has_said_its_limit(shop: Shop) -> None:
    log = shop.log_with(100, MONTH)
    log.check_local_transaction(asked("00001-1", 0))
    shop.log.check_local_transaction(asked("00001-1"))  # not switched on
    assert ages(shop) == {"0", "1"}


def test_an_age_shorter_than_the_jobs_limit_is_refused_and_said_once(
    shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    log = shop.log_with(100, timedelta(milliseconds=LIMIT_MS) - DAY)
    with caplog.at_level(logging.WARNING):
        for _ in "12":
            assert log.check_local_transaction(asked("00001-1")) is LocalTransactionState.COMMIT
    assert ages(shop) == {"0", "1"}
    said = [record.getMessage() for record in caplog.records if "prunes nothing" in record.getMessage()]
    assert len(said) == 1
    assert "prune_after is 21 days, 0:00:00, and the job may ask about a transaction for 22 days, 0:00:00" in said[0]


class Pages:
    """A table of so many pages."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.looked: list[Any] = []
        self.error: Exception | None = None

    def page(self, after: int | None, before: datetime) -> int | None:
        self.looked.append(after)
        if self.error is not None:
            raise self.error
        this = 1 if after is None else after + 1
        return this if this < self.number else None


class Clock:
    def __init__(self, tick: float) -> None:
        self.now, self.tick = 0.0, tick

    def __call__(self) -> float:
        self.now += self.tick
        return self.now


def test_a_long_table_takes_several_checks_and_then_there_is_a_rest() -> None:
    clock, pages = Clock(0.05), Pages(7)
    pruning = Pruning(MONTH, clock)
    pruning.after_check(asked("tx"), pages.page)
    assert 1 < len(pages.looked) < 7
    for _ in range(5):
        pruning.after_check(asked("tx"), pages.page)
    assert pages.looked == [None, 1, 2, 3, 4, 5, 6]
    clock.now += 3_600
    pruning.after_check(asked("tx"), pages.page)
    assert pages.looked[7] is None


def test_an_error_keeps_no_check_from_its_answer(caplog: pytest.LogCaptureFixture) -> None:
    pages = Pages(1)
    pages.error = OSError("gone")
    pruning = Pruning(MONTH)
    for _ in "12":
        pruning.after_check(asked("tx"), pages.page)
    assert pages.looked == [None]
    assert "were not pruned, next try in an hour: gone" in caplog.text


def test_the_longest_limit_of_several_jobs_counts() -> None:
    pages = Pages(1)
    pruning = Pruning(MONTH)
    pruning.after_check(asked("tx", 31 * 86_400_000), pages.page)
    pruning.after_check(asked("tx"), pages.page)
    assert pages.looked == []


def test_it_wants_an_age() -> None:
    with pytest.raises(ConfigurationError, match="prune_after is 0:00:00, which is not above zero"):
        Pruning(timedelta(0))


def test_the_limit_travels_with_the_check_and_who_does_not_know_it_passes_over_it() -> None:
    said = asked("tx")
    _, value, headers = said.to_record()
    assert dict(headers)["cb-ask-limit-ms"] == b"1900800000"
    assert CheckRequest.from_record(value, headers).ask_limit_ms == LIMIT_MS
    assert CheckRequest.from_json(said.to_json()) == replace(said, headers=[])
    silent = question("tx")
    assert "ask_limit_ms" not in silent.to_json()
    assert "cb-ask-limit-ms" not in dict(silent.to_record()[2])
    assert CheckRequest.from_json(silent.to_json()).ask_limit_ms == 0
