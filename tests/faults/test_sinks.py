"""Faults of the stores that hold tables: each does what its name says, and a run of the deck holds."""

from collections.abc import Iterator
from contextlib import suppress
from http.client import HTTPConnection, HTTPException

import psycopg
import pytest

from checkback.local.kafka import free_port
from tests.faults.test_torture import judge
from tests.sql.postgres import installed
from torture.answers import HOST, TO_COMMIT, TO_LOG_ENTRY, LosingProxy
from torture.decks import Deck
from torture.disk import can_be_had
from torture.local_postgresql import LocalPostgresql
from torture.local_s3 import LocalS3
from torture.run import Options, torture
from torture.sink_faults import read_only

SEED = 256
"""Its first four rounds take S3 away, compact both Delta tables, kill the driver between two of four destinations, and
lose the answer to a COMMIT."""


@pytest.fixture(scope="module")
def server() -> Iterator[LocalPostgresql]:
    with installed(free_port()) as server:
        with server.connect() as connection:
            connection.execute("CREATE ROLE job LOGIN PASSWORD 'open sesame'")
            connection.execute("CREATE TABLE rows (number INT); GRANT ALL ON rows TO job")
        yield server


def copy_and_commit(port: int, number: int) -> None:
    """One transaction with a row, as a job writes its batch."""
    address = f"host={HOST} port={port} user=job password='open sesame' dbname=postgres"
    with psycopg.connect(address) as connection:
        connection.execute("SELECT 1")
        connection.commit()  # the job ends the settings of its session so
        with connection.cursor().copy("COPY rows FROM STDIN") as copy:
            copy.write_row([number])


def rows(server: LocalPostgresql) -> list[int]:
    with server.connect() as connection:
        return [number for (number,) in connection.execute("SELECT number FROM rows ORDER BY number")]


def test_a_commit_whose_answer_is_lost_is_done(server: LocalPostgresql) -> None:
    assert server.port is not None
    with LosingProxy(free_port(), server.port, TO_COMMIT) as proxy:
        copy_and_commit(proxy.port, 1)
        proxy.lose_one()
        with pytest.raises(psycopg.OperationalError, match="closed the connection"):
            copy_and_commit(proxy.port, 2)
        assert (proxy.lost, rows(server)) == (1, [1, 2])
        copy_and_commit(proxy.port, 3)
    assert rows(server) == [1, 2, 3]


def test_a_read_only_database_refuses_to_write_until_it_is_not(server: LocalPostgresql) -> None:
    assert server.port is not None
    before = rows(server)
    with read_only(server), pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
        copy_and_commit(server.port, 4)
    copy_and_commit(server.port, 5)
    assert rows(server) == [*before, 5]


def put(port: int, key: str) -> int | None:
    """Status of the answer; None without one."""
    connection = HTTPConnection(HOST, port, timeout=30)
    with suppress(HTTPException, OSError):
        connection.request("PUT", f"/{LocalS3.bucket}/table/{key}", body=b"{}")
        return connection.getresponse().status
    return None


def test_an_entry_of_the_log_whose_answer_is_lost_is_there() -> None:
    with LocalS3(lets_in_everybody=True) as s3, LosingProxy(free_port(), s3.port, TO_LOG_ENTRY) as proxy:
        proxy.lose_one()
        assert put(proxy.port, "rows.parquet") == 200
        assert put(proxy.port, "_delta_log/7.json") is None
        assert put(proxy.port, "_delta_log/8.json") == 200
        assert proxy.lost == 1
        assert sorted(file.name for file in (s3.objects / "table" / "_delta_log").iterdir()) == ["7.json", "8.json"]


@pytest.mark.lab
@pytest.mark.timeout(2400)
def test_nothing_is_lost_repeated_leaked_or_changed_in_any_table() -> None:
    if not can_be_had():
        pytest.skip("This machine lets nobody mount a file system of its own: that needs root, ext4 and loop devices.")
    report = torture(Options(SEED, rounds=4, with_neighbours=False, deck=Deck.SINKS))
    judge(report, "kafka", "lake", "files", "warehouse", "bucket")
    assert len(report.rounds) == 4
    assert min(judged.expected for judged in report.judgements.values()) > 200
