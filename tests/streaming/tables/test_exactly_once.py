"""Each kind of table, with the faults that matter: once, whole, or not yet."""

import contextlib
import shutil
import threading

import pytest

from checkback.exceptions import DestinationError, InputCutShortError
from streaming.batch.failpoints import Failpoint
from tests.streaming.tables.driver import Crash, CrashError, Driver, Query, messages
from tests.tables import Rows, Table

ORDERS = "orders"


def ids(rows: Rows) -> list[str]:
    return sorted(row["id"] for row in rows)


def staged(query: Query) -> list[str]:
    """Attempts at batches whose staged files have not been removed; tables lie in the test's folder, too."""
    return [str(attempt) for attempt in query.place.folder.rglob("_checkback_staging/*/*")]


def test_rows_say_everything_a_message_has(query: Query, table: Table) -> None:
    packed = '[{"key":"b","value":"AP8="},{"key":"a","value":""},{"key":"b"},{"key":"cb-own","value":"MQ=="}]'
    rows = messages(ORDERS, 1, 2)
    rows[0] |= {"headers": packed, "partition": 3, "key": None, "value": b'\x00\xff\r\n",\\'}
    rows[1] |= {"value": None, "key": b"", "half_partition": 1}
    query.driver(table.sinks()).run(0, rows)
    first, second = sorted(table.read(), key=lambda row: row["id"])
    headers = [{"key": "b", "value": b"\x00\xff"}, {"key": "a", "value": b""}, {"key": "b", "value": None}]
    common = {"topic": ORDERS, "producer_group": "shop", "batch": 0}
    assert first == common | {
        "id": "tx-1",
        "partition": 3,
        "key": None,
        "value": b'\x00\xff\r\n",\\',
        "headers": headers,
        "half": "0:1",
    }
    assert second == common | {
        "id": "tx-2",
        "partition": None,
        "key": b"",
        "value": None,
        "headers": [],
        "half": "1:2",
    }


def test_a_batch_run_twice_is_there_once_and_later_ones_add_their_rows(query: Query, table: Table) -> None:
    driver = query.driver(table.sinks())
    for _ in range(2):
        driver.run(0, messages(ORDERS, 1, 2, 3))
        assert ids(table.read()) == ["tx-1", "tx-2", "tx-3"]
    for number in (1, 2):
        driver.run(number, messages(ORDERS, number + 3))
    assert ids(table.read()) == ["tx-1", "tx-2", "tx-3", "tx-4", "tx-5"]
    assert staged(query) == []
    assert [report.published for report in driver.reports[-2:]] == [{table.name: 1}] * 2


@pytest.mark.parametrize(
    ("step", "seen"),
    [(Failpoint.BEFORE_PUBLISH, []), (Failpoint.AFTER_PUBLISH, ["tx-1", "tx-2"])],
    ids=["before", "after"],
)
def test_a_crash_beside_publishing(query: Query, table: Table, step: Failpoint, seen: list[str]) -> None:
    with pytest.raises(CrashError):
        query.driver(table.sinks(), Crash(step)).run(0, messages(ORDERS, 1, 2))
    assert ids(table.read()) == seen
    assert staged(query)
    query.driver(table.sinks()).run(0, messages(ORDERS, 1, 2))
    assert ids(table.read()) == ["tx-1", "tx-2"]
    assert staged(query) == []


def test_kafka_has_the_batch_and_the_table_gets_it_later(query: Query, other: Table) -> None:
    topic = query.place.real_topic
    sinks = other.sinks({"topic": "*", "to": ["kafka", other.name]})
    with pytest.raises(CrashError):
        query.driver(sinks, Crash(Failpoint.BEFORE_PUBLISH)).run(0, messages(topic, 1))
    assert [record.value for record in query.place.read(topic)] == [b"1"]
    driver = query.driver(sinks)
    driver.run(0, messages(topic, 1))
    assert [record.value for record in query.place.read(topic)] == [b"1"]
    assert ids(other.read()) == ["tx-1"]
    assert driver.reports[0].skipped_partitions == 2


def zombie(query: Query, table: Table, *, cleaned: bool) -> Driver:
    """A driver that publishes batch 0 after another one has; ``cleaned``: that one has removed what it had staged."""

    def meanwhile(step: Failpoint, batch: int) -> None:
        if step is Failpoint.BEFORE_PUBLISH:
            alive = query.driver(table.sinks())
            if not cleaned:
                assert alive.publisher is not None
                alive.publisher._cleaned = True
            alive.run(0, messages(ORDERS, 1, 2))
            alive.run(1, messages(ORDERS, 3))

    return query.driver(table.sinks(), meanwhile)


def test_a_zombie_driver_that_publishes_later_changes_nothing(query: Query, table: Table) -> None:
    zombie(query, table, cleaned=False).run(0, messages(ORDERS, 1, 2))
    assert ids(table.read()) == ["tx-1", "tx-2", "tx-3"]


def test_a_zombie_driver_whose_files_are_gone_changes_nothing(query: Query, other: Table) -> None:
    with contextlib.suppress(DestinationError):  # it may find that out before it finds the batch
        zombie(query, other, cleaned=True).run(0, messages(ORDERS, 1, 2))
    assert ids(other.read()) == ["tx-1", "tx-2", "tx-3"]


def test_what_no_task_reported_is_not_published(query: Query, table: Table) -> None:
    def left_by_a_failed_task(step: Failpoint, batch: int) -> None:
        if step is Failpoint.BEFORE_PUBLISH:
            for file in query.place.folder.rglob("_checkback_staging/**/*.parquet"):
                shutil.copy(file, file.with_name(f"copy-of-{file.name}"))

    query.driver(table.sinks(), left_by_a_failed_task).run(0, messages(ORDERS, 1, 2))
    assert ids(table.read()) == ["tx-1", "tx-2"]


def test_two_drivers_that_publish_at_once(query: Query, table: Table) -> None:
    both = threading.Barrier(2, timeout=60)
    rows = messages(ORDERS, 1, 2, 3)
    query.driver(table.sinks()).run(0, messages(ORDERS, 0))
    failed: list[BaseException] = []

    def second() -> None:
        def at_once(step: Failpoint, batch: int) -> None:
            if step is Failpoint.BEFORE_PUBLISH:
                both.wait()

        driver = query.driver(table.sinks(), at_once)
        assert driver.publisher is not None
        driver.publisher._cleaned = True  # else the first one's files were gone
        try:
            driver.run(1, rows)
        except DestinationError as error:  # the one that lost may say so, and starts again
            failed.append(error)

    thread = threading.Thread(target=second)

    def first(step: Failpoint, batch: int) -> None:
        if step is Failpoint.BEFORE_PUBLISH:  # its tasks are done: the second one's cannot fence them
            thread.start()
            both.wait()

    try:
        query.driver(table.sinks(), first).run(1, rows)
    except DestinationError as error:
        failed.append(error)
    thread.join()
    assert len(failed) < 2
    assert ids(table.read()) == ["tx-0", "tx-1", "tx-2", "tx-3"]


def test_a_table_that_fails_is_named_and_gets_the_batch_later(query: Query, table: Table) -> None:
    def away(step: Failpoint, batch: int) -> None:
        if step is Failpoint.BEFORE_PUBLISH:
            table.break_it()

    driver = query.driver(table.sinks(), away)
    with pytest.raises(DestinationError, match=f"Destination {table.name} could not take batch 0") as error:
        driver.run(0, messages(ORDERS, 1, 2))
    assert "\n" not in str(error.value)
    table.mend_it()
    assert table.read() == []
    query.driver(table.sinks()).run(0, messages(ORDERS, 1, 2))
    assert ids(table.read()) == ["tx-1", "tx-2"]


def test_a_staged_file_that_was_cut_short_is_not_published(query: Query, table: Table) -> None:
    for cut in (1, 200):

        def cut_short(step: Failpoint, _batch: int, cut: int = cut) -> None:
            if step is Failpoint.BEFORE_PUBLISH:
                for file in query.place.folder.rglob("_checkback_staging/**/*.parquet"):
                    file.write_bytes(file.read_bytes()[:-cut])

        with pytest.raises(DestinationError, match="is not whole"):
            query.driver(table.sinks(), cut_short).run(0, messages(ORDERS, 1, 2, 3))
        assert table.read() == []
    query.driver(table.sinks()).run(0, messages(ORDERS, 1, 2, 3))
    assert ids(table.read()) == ["tx-1", "tx-2", "tx-3"]


def test_a_batch_of_which_not_every_task_has_reported_is_not_published(query: Query, other: Table) -> None:
    driver = query.driver(other.sinks())
    driver._sink._state_partitions += 1  # as if one report had been lost on its way
    with pytest.raises(InputCutShortError, match="reports came from"):
        driver.run(0, messages(ORDERS, 1, 2, 3))
    assert other.read() == []
    query.driver(other.sinks()).run(0, messages(ORDERS, 1, 2, 3))
    assert ids(other.read()) == ["tx-1", "tx-2", "tx-3"]
