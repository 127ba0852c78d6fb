"""A table that is deleted: the job stops or warns instead of making an empty one without a word."""

import logging
import shutil

import pytest

from checkback.exceptions import DestinationError
from tests.streaming.tables.driver import Query, messages, publisher
from tests.tables import Database, Table

ORDERS = "orders"


def delete(table: Table, request: pytest.FixtureRequest) -> None:
    if table.settings["kind"] == "postgresql":
        database: Database = request.getfixturevalue("database")
        database.run(f"DROP TABLE {table.settings['table']}")
    else:
        shutil.rmtree(table.settings["path"])


def test_a_table_deleted_while_the_job_runs_stops_it_and_the_next_start_warns(
    query: Query, table: Table, request: pytest.FixtureRequest, caplog: pytest.LogCaptureFixture
) -> None:
    driver = query.driver(table.sinks())
    driver.run(0, messages(ORDERS, 0))
    query.commit(0)
    delete(table, request)
    with pytest.raises(DestinationError, match=r"was deleted while the job ran|does not exist"):
        driver.run(1, messages(ORDERS, 1))
    with pytest.raises(DestinationError, match=r"was deleted while the job ran|does not exist"):
        driver.run(1, messages(ORDERS, 1))
    assert warnings(caplog) == []
    if table.settings["kind"] != "postgresql":
        shutil.rmtree(table.settings["path"])  # what was staged
    query.driver(table.sinks()).run(1, messages(ORDERS, 1))
    assert [row["id"] for row in table.read()] == ["tx-1"], "the batch that was cut off"
    [said] = warnings(caplog)
    assert said.startswith(f"Table {table.name} is missing or empty, but had rules before.")


def warnings(log: pytest.LogCaptureFixture) -> list[str]:
    named = [record for record in log.records if record.name == "streaming.tables.building"]
    return [record.getMessage() for record in named if record.levelno == logging.WARNING]


def test_what_was_never_there_or_still_is_causes_no_warning(
    query: Query, table: Table, caplog: pytest.LogCaptureFixture
) -> None:
    """A table of which no message has come yet, through several starts: batches without rows leave it alone."""
    publisher(query.settings(table.sinks()), query.spark)
    for number in range(2):
        query.driver(table.sinks({"topic": "orders", "to": [table.name]})).run(
            number, messages(query.place.real_topic, number)
        )
        query.commit(number)
    for number in range(2, 4):
        query.driver(table.sinks()).run(number, messages(ORDERS, number))
        query.commit(number)
    assert sorted(row["id"] for row in table.read()) == ["tx-2", "tx-3"]
    assert warnings(caplog) == []
