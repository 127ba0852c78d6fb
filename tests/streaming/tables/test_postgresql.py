"""What is PostgreSQL's own: ids that come again, rights, addresses, and text it does not take."""

import random
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from checkback.exceptions import ConfigurationError, DestinationError
from checkback.local.kafka import free_port
from checkback.wire.protocol import Topics
from conf import PostgresqlTable, Settings
from streaming.batch.batch import Batch
from streaming.folders import folder_at
from streaming.tables.postgresql_table import PostgresqlDestination, _chunks, copy_lines
from streaming.tables.routes import Routes
from streaming.tables.staging import TABLE_SCHEMA, Staging, StagingPlan
from tests.place import Place
from tests.streaming.outcomes import SCHEMA
from tests.streaming.tables.driver import Query, messages, publisher
from tests.tables import Database, Table, postgresql_table

ORDERS = "orders"


@pytest.fixture
def warehouse(database: Database) -> Table:
    return postgresql_table(database)


def test_a_message_replaces_no_other_groups_message_of_the_same_id(query: Query, warehouse: Table) -> None:
    rows = messages(ORDERS, 9, 10, 2)
    for row in rows:
        row["transaction_id"] = "same"
    rows[2]["group"] = "another"
    driver = query.driver(warehouse.sinks())
    driver.run(0, rows[:2])
    driver.run(1, rows[2:])
    found = sorted((row["half"], row["id"], row["value"], row["producer_group"]) for row in warehouse.read())
    of = rows[0]["group"]
    assert found == [("0:10", "same", b"10", of), ("0:2", "same", b"2", "another"), ("0:9", "same", b"9", of)]


def test_an_older_batch_does_not_replace_what_a_newer_one_wrote(query: Query, warehouse: Table) -> None:
    rows = messages(ORDERS, 1, 2)
    for row in rows:
        row |= {"transaction_id": "same", "half_offset": 1}
    driver = query.driver(warehouse.sinks())
    for batch, some in ((0, rows[:1]), (1, rows[1:])):
        driver.run(batch, some)
    plan = StagingPlan(0, Routes.of([("*", ["warehouse"])]), {"warehouse": f"{query.folder}/late"})
    late = Staging(plan, 0)
    assert list(late.take(iter([pa.RecordBatch.from_pylist(rows[:1], schema=SCHEMA)]))) == []
    zombie = publisher(query.settings(warehouse.sinks()), query.spark)
    assert zombie is not None
    destination = zombie._destinations["warehouse"]
    file = late.files[0].file.rpartition("/")[2]
    destination.publish(Batch(query.id, 0, "", every_partition_writes=False), "late", [file])
    assert [row["value"] for row in warehouse.read()] == [b"2"]


def settings_of(place: Place, table: dict[str, Any]) -> Settings:
    return place.settings(sinks={"rules": [{"topic": "*", "to": ["warehouse"]}], "tables": {"warehouse": table}})


def refused(place: Place, spark: SparkSession, table: dict[str, Any]) -> str:
    with pytest.raises(ConfigurationError) as error:
        publisher(settings_of(place, table), spark)
    assert "\n" not in str(error.value)
    assert str(error.value).startswith("sinks.tables.warehouse: jdbc:postgresql://")
    return str(error.value)


def test_a_wrong_password(offline: Place, spark: SparkSession, warehouse: Table) -> None:
    said = refused(offline, spark, warehouse.settings | {"password": "wrong horse"})
    assert "password authentication failed" in said
    assert "wrong horse" not in said


def test_a_database_that_is_not_there(offline: Place, spark: SparkSession, database: Database) -> None:
    assert "used: FATAL: database" in refused(offline, spark, database.settings(url=database.url + "x"))


def test_a_host_that_is_not_known_may_become_known(offline: Place, spark: SparkSession, database: Database) -> None:
    """A name server can be down, too."""
    nowhere = database.settings(url="jdbc:postgresql://no-such-host.invalid/postgres")
    with pytest.raises(DestinationError, match=r"sinks\.tables\.warehouse: .*no-such-host\.invalid"):
        publisher(settings_of(offline, nowhere), spark)


def test_a_server_that_is_down_may_come_up_again(offline: Place, spark: SparkSession, database: Database) -> None:
    down = database.settings(url=f"jdbc:postgresql://127.0.0.1:{free_port()}/postgres")
    with pytest.raises(DestinationError, match=r"sinks\.tables\.warehouse: jdbc.*refused"):
        publisher(settings_of(offline, down), spark)


def test_a_database_that_cannot_hold_every_character(offline: Place, spark: SparkSession, database: Database) -> None:
    database.run("DROP DATABASE IF EXISTS latin", "CREATE DATABASE latin ENCODING LATIN1 LOCALE 'C' TEMPLATE template0")
    latin = database.settings(url=database.url.rpartition("/")[0] + "/latin")
    assert "has the encoding LATIN1" in refused(offline, spark, latin)


def test_a_database_that_is_read_only_may_become_writable(
    offline: Place, spark: SparkSession, warehouse: Table, database: Database
) -> None:
    database.run(f"ALTER ROLE {database.user} SET default_transaction_read_only = on")
    try:
        with pytest.raises(DestinationError, match="read-only transaction"):
            publisher(settings_of(offline, warehouse.settings), spark)
    finally:
        database.run(f"ALTER ROLE {database.user} RESET default_transaction_read_only")


@pytest.mark.parametrize(("mode", "in_force"), [("off", "on"), ("local", "local")])
def test_a_commit_waits_for_the_servers_disk(
    query: Query, warehouse: Table, database: Database, mode: str, in_force: str
) -> None:
    query.driver(warehouse.sinks())
    column = "mode text DEFAULT current_setting('synchronous_commit')"
    database.run(
        f"ALTER ROLE {database.user} SET synchronous_commit = {mode}",
        f"ALTER TABLE {warehouse.settings['table']} ADD COLUMN {column}",
    )
    try:
        query.driver(warehouse.sinks()).run(0, messages(ORDERS, 1))
    finally:
        database.run(f"ALTER ROLE {database.user} RESET synchronous_commit")
    assert [row["mode"] for row in warehouse.read()] == [in_force]


def test_batches_that_a_failover_has_lost_are_logged(
    query: Query, warehouse: Table, database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    driver, table = query.driver(warehouse.sinks()), warehouse.settings["table"]
    for number in range(3):
        driver.run(number, messages(ORDERS, number))
    assert not caplog.records
    progress = table.replace("messages", "checkback_progress")
    lost = f"UPDATE {progress} SET batch = 0 WHERE query <> 'checkback-source'"  # noqa: S608  (ours)
    database.run(f"DELETE FROM {table} WHERE batch > 0", lost)  # noqa: S608  (ours)
    query.driver(warehouse.sinks()).run(3, messages(ORDERS, 3))  # a failover ends the job, too
    assert "destination warehouse has lost batches after 0, up to 2" in caplog.text


def test_a_trigger_that_drops_rows_is_refused(query: Query, warehouse: Table, database: Database) -> None:
    table, driver = warehouse.settings["table"], query.driver(warehouse.sinks())
    drops = f"{table.partition('.')[0]}.drops"
    database.run(
        f"CREATE FUNCTION {drops}() RETURNS trigger LANGUAGE plpgsql AS "
        "'BEGIN IF new.id = ''tx-1'' THEN RETURN NULL; END IF; RETURN new; END'",
        f"CREATE TRIGGER drops BEFORE INSERT ON {table} FOR EACH ROW EXECUTE FUNCTION {drops}()",
    )
    with pytest.raises(ConfigurationError, match=r"took 1 of 2 rows\. A trigger"):
        driver.run(0, messages(ORDERS, 1, 2))
    assert warehouse.read() == []


def test_first_starts_at_once_all_succeed(offline: Place, spark: SparkSession, database: Database) -> None:
    schema = postgresql_table(database).settings["table"].partition(".")[0]
    tables = [database.settings(table=f"{schema}.messages{number % 4}") for number in range(8)]
    with ThreadPoolExecutor(len(tables)) as pool:
        list(pool.map(lambda table: publisher(settings_of(offline, table), spark), tables))


def test_a_large_staged_file_is_read_in_pieces(tmp_path: Path) -> None:
    value = random.randbytes(1 << 20)
    with pq.ParquetWriter(tmp_path / "staged", pa.schema({"value": pa.binary()})) as file:
        for _ in range(16):
            file.write_table(pa.table({"value": [value[number:] for number in range(16)]}))
    before = pa.total_allocated_bytes()
    most = max(pa.total_allocated_bytes() - before for _ in _chunks([f"file:{tmp_path}/staged"], ""))
    assert most < 128 << 20, "of 256 MiB"


def test_no_right_to_create(offline: Place, spark: SparkSession, database: Database) -> None:
    database.run("DROP SCHEMA IF EXISTS closed CASCADE", "CREATE SCHEMA closed")
    assert "permission denied" in refused(offline, spark, database.settings(table="closed.messages"))


MESSAGES = """CREATE TABLE {0}.messages (
    id text, topic text, partition int, key bytea, value bytea, headers jsonb,
    producer_group text, half text, batch bigint, mine text DEFAULT 'own', PRIMARY KEY (id, half)
)"""
PROGRESS = """CREATE TABLE {0}.checkback_progress (
    query text, destination text, batch bigint NOT NULL, PRIMARY KEY (query, destination)
)"""
DDL = (
    MESSAGES,
    PROGRESS,
    "GRANT USAGE ON SCHEMA {0} TO job",
)


def test_tables_made_by_hand_need_no_right_to_create(query: Query, database: Database) -> None:
    grant = "GRANT SELECT, INSERT, UPDATE ON ALL TABLES IN SCHEMA narrow TO job"
    made = (statement.format("narrow") for statement in DDL)
    database.run("DROP SCHEMA IF EXISTS narrow CASCADE", "CREATE SCHEMA narrow", *made, grant)
    sinks = {"rules": [{"topic": "*", "to": ["w"]}], "tables": {"w": database.settings(table="narrow.messages")}}
    for _ in range(2):
        query.driver(sinks).run(0, messages(ORDERS, 1))
    with psycopg.connect(**database.socket) as connection:
        assert connection.execute("SELECT id, mine FROM narrow.messages").fetchall() == [("tx-1", "own")]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("REVOKE UPDATE ON {0}.messages FROM job", "permission denied"),
        (
            "ALTER TABLE {0}.messages DROP CONSTRAINT messages_pkey, ADD PRIMARY KEY (id)",
            'ALTER TABLE "unfit"."messages" DROP CONSTRAINT "messages_pkey", ADD PRIMARY KEY (id, half);',
        ),
        (
            "ALTER TABLE {0}.messages DROP CONSTRAINT messages_pkey",
            'ALTER TABLE "unfit"."messages" ADD PRIMARY KEY (id, half);',
        ),
        ("ALTER TABLE {0}.messages DROP COLUMN half", "half"),
        ("ALTER TABLE {0}.messages ADD COLUMN more int NOT NULL", "more"),
        ("ALTER TABLE {0}.messages ALTER COLUMN key SET NOT NULL", "key"),
        ("ALTER TABLE {0}.messages ALTER COLUMN topic TYPE varchar(99)", "too long for type character varying(99)"),
        ("ALTER TABLE {0}.messages ALTER COLUMN id TYPE varchar(64)", "too long for type character varying(64)"),
        ("ALTER TABLE {0}.messages ALTER COLUMN half TYPE varchar(20)", "too long for type character varying(20)"),
        ("ALTER TABLE {0}.messages ALTER COLUMN partition TYPE smallint", "smallint out of range"),
        ("ALTER TABLE {0}.messages ADD UNIQUE (key)", "duplicate key value violates unique constraint"),
        ("ALTER TABLE {0}.messages ALTER COLUMN headers TYPE jsonb[] USING NULL", "headers"),
        ("ALTER TABLE {0}.messages ADD CHECK (partition IS NOT NULL)", "check constraint"),
    ],
)
def test_a_table_that_does_not_fit_is_refused_at_start(
    offline: Place, spark: SparkSession, database: Database, change: str, said: str
) -> None:
    grant = "GRANT SELECT, INSERT, UPDATE ON ALL TABLES IN SCHEMA unfit TO job"
    made = (statement.format("unfit") for statement in DDL)
    database.run("DROP SCHEMA IF EXISTS unfit CASCADE", "CREATE SCHEMA unfit", *made, grant, change.format("unfit"))
    assert said in refused(offline, spark, database.settings(table="unfit.messages"))


def test_text_with_a_nul_holds_up_nobody(query: Query, warehouse: Table) -> None:
    rows = messages(ORDERS, 1, 2)
    rows[0] |= {"transaction_id": "a\0b", "group": "g\0", "headers": '[{"key":"n\\u0000","value":"AA=="}]'}
    query.driver(warehouse.sinks()).run(0, rows)
    first, _ = sorted(warehouse.read(), key=lambda row: row["id"])
    assert (first["id"], first["producer_group"]) == ("a\\u0000b", "g\\u0000")
    assert first["headers"] == [{"key": "n\\u0000", "value": b"\0"}]


def test_lines_keep_null_and_empty_apart() -> None:
    row = {"id": 'a,"b"\n', "topic": "", "headers": [], "producer_group": "g", "half": "0:1", "batch": 3}
    rows = pa.RecordBatch.from_pylist([row | {"key": b"", "value": None, "partition": None}], schema=TABLE_SCHEMA)
    assert copy_lines(rows) == b'"a,""b""\n","",,\\x,,[],"g","0:1",3\n'


def test_another_half_topics_rows_are_not_replaced(
    query: Query, place: Place, spark: SparkSession, warehouse: Table, database: Database
) -> None:
    """The first message of two half topics is 0:0 in both, and two producers may both name it order-1."""
    query.driver(warehouse.sinks()).run(0, messages(ORDERS, 1))
    other = replace(place, topics=Topics(prefix=f"{place.topics.prefix}other."))
    said = refused(other, spark, warehouse.settings)
    assert "belongs to a job with another half topic" in said
    assert [row["id"] for row in warehouse.read()] == ["tx-1"]
    query.driver(warehouse.sinks()).run(1, messages(ORDERS, 2))  # its own goes on
    database.run(said.partition("and run: ")[2])
    publisher(settings_of(other, warehouse.settings), spark)
    assert "belongs to a job with another half topic" in refused(place, spark, warehouse.settings)


def test_two_that_start_at_once_do_not_both_get_a_table(
    offline: Place, spark: SparkSession, warehouse: Table, database: Database
) -> None:
    publisher(settings_of(offline, warehouse.settings), spark)
    folder = folder_at(spark, str(offline.folder))
    table = PostgresqlTable.model_validate(warehouse.settings)
    both, refusals = threading.Barrier(2), []

    def start(source: str) -> None:
        destination = PostgresqlDestination("warehouse", spark, folder, table, source)
        with destination._connection() as connection:
            both.wait()
            try:
                destination._refuse_another_source(connection)
            except ConfigurationError:
                refusals.append(source)

    forget = "DELETE FROM {}.checkback_progress"  # as in a table of an earlier version
    database.run(forget.format(table.table.partition(".")[0]))
    threads = [threading.Thread(target=start, args=(source,)) for source in ("one", "two")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(refusals) == 1
