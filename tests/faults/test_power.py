"""What a loss of power leaves: of a broker, of a database, and of the whole system whose machines lose it."""

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

from checkback.kafka.librdkafka.library import AdminClient, Consumer, NewTopic, Producer, TopicPartition
from checkback.local import LocalKafka
from tests.faults.test_torture import judge
from tests.place import wait_until
from tests.sql.postgres import installed
from torture.decks import Deck
from torture.disk import Disk, can_be_had
from torture.power import cut_power
from torture.run import Options, torture
from torture.sent import Database
from torture.system import READ_AGAIN

SEED = 4
"""Its first round is a broker that is started at once."""
_COMMITS = """
import sys, threading
from pathlib import Path
from checkback import HalfMessage, Message
from checkback.wire.protocol import HalfPosition
from torture.sent import Database
database = Database(Path(sys.argv[1]), "shop", sys.argv[2])
database.commit(HalfMessage("a", "orders", b"value", None, (), HalfPosition(0, 0)), [Message("orders", b"value")])
print("committed", flush=True)
threading.Event().wait()
"""


@pytest.fixture(autouse=True)
def _disks() -> None:
    if not can_be_had():
        pytest.skip("This machine lets nobody mount a file system of its own: that needs root, ext4 and loop devices.")


@pytest.fixture
def disk() -> Iterator[Disk]:
    with tempfile.TemporaryDirectory() as place:  # pytest's own let no other user in, as whom PostgreSQL runs
        Path(place).chmod(0o755)
        disk = Disk(Path(place))
        disk.make()
        yield disk
        disk.close()


@pytest.mark.parametrize(("synchronous", "kept"), [("FULL", ["a"]), ("NORMAL", []), ("OFF", [])])
def test_sqlite_keeps_a_commit_only_where_it_waits_for_the_disk(disk: Disk, synchronous: str, kept: list[str]) -> None:
    command = [sys.executable, "-c", _COMMITS, str(disk.folder), synchronous]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as shop:
        assert shop.stdout is not None
        assert shop.stdout.readline() == b"committed\n"
        cut_power(shop.pid, disk)
    database = Database(disk.folder, "shop", synchronous)
    assert database.ids_of(["orders"]) == kept
    database.close()


def test_postgresql_keeps_a_commit_only_where_it_waits_for_the_disk(disk: Disk) -> None:
    with installed(disk=disk.folder) as server:
        engine = create_engine(server.url)
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            # by default the log is written 200 ms later at the latest: on a loaded machine before the power is cut
            connection.execute(text("ALTER SYSTEM SET wal_writer_delay = '10s'"))
            connection.execute(text("SELECT pg_reload_conf()"))
        with engine.begin() as connection:
            connection.execute(text("CREATE TABLE orders (number INT)"))
            connection.execute(text("INSERT INTO orders VALUES (1)"))
        with engine.begin() as connection:
            connection.execute(text("SET LOCAL synchronous_commit = off"))
            connection.execute(text("INSERT INTO orders VALUES (2)"))
        cut_power(server.pid, disk)
        engine.dispose()
        server.start()
        with engine.begin() as connection:
            assert list(connection.scalars(text("SELECT number FROM orders"))) == [1]
        engine.dispose()


def test_one_broker_keeps_what_it_confirmed_only_where_it_flushes(disk: Disk) -> None:
    topics = {"flushed": {"flush.messages": "1"}, "usual": {}}
    broker = LocalKafka(disk.folder / "kafka")
    with broker:
        disk.settle()  # what Kafka's format has written, and has not synchronised
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        made = admin.create_topics([NewTopic(name, 1, 1, config=config) for name, config in topics.items()])
        for answer in made.values():
            answer.result()
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "acks": "all"})
        refused: list[object] = []
        for topic in topics:
            producer.produce(topic, b"value", on_delivery=lambda error, _: refused.append(error))
        assert producer.flush(60) == 0
        assert refused == [None, None]
        cut_power(broker.pid, disk)
        broker.kill()
        broker.start()
        consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "looks"})
        ends = {}

        def answered() -> bool:
            ends.update({one: consumer.get_watermark_offsets(TopicPartition(one, 0), timeout=10)[1] for one in topics})
            return True

        wait_until(answered, "Kafka says where its partitions end")
        consumer.close()
        assert ends == {"flushed": 1, "usual": 0}


@pytest.mark.timeout(900)
def test_nothing_is_lost_when_one_machine_loses_power() -> None:
    report = torture(Options(SEED, rounds=1, with_neighbours=False, deck=Deck.POWER))
    judge(report, "kafka", READ_AGAIN)
    assert len(report.rounds) == 1
    assert sum(done.lost_bytes for done in report.rounds) > 0
