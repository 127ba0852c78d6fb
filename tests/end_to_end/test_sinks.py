"""The whole way to four destinations at once, with the job restarted in between."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from checkback import HalfMessage, Message, TransactionProducer
from checkback.exceptions import DestinationError
from checkback.local import LocalKafka
from checkback.operations.topics import TopicAdministration
from streaming import TransactionJob
from streaming.batch.failpoints import Failpoint
from tests.end_to_end.job import running
from tests.place import Place, wait_until
from tests.tables import Database, Table, delta_table, parquet_table, postgresql_table

ALL = ("kafka", "lake", "files", "warehouse")


@pytest.fixture
def tables(database: Database, tmp_path: Path) -> dict[str, Table]:
    made = (delta_table(tmp_path / "lake"), parquet_table(tmp_path / "files"), postgresql_table(database))
    return {table.name: table for table in made}


def sinks(tables: dict[str, Table], **to: tuple[str, ...]) -> dict[str, Any]:
    rules = [{"topic": f"*{topic}", "to": list(names)} for topic, names in to.items()]
    return {"rules": rules, "tables": {name: table.settings for name, table in tables.items()}}


def test_each_message_is_where_its_topic_goes_and_there_once(
    place: Place, spark: SparkSession, broker: LocalKafka, tables: dict[str, Table]
) -> None:
    topics = {name: f"{place.topics.prefix}{name}" for name in ("plain", "twice", "apart", "everywhere")}
    given = sinks(tables, twice=("kafka", "lake"), apart=("files",), everywhere=ALL)
    with TopicAdministration(broker.bootstrap_servers) as administration:
        for name in ("plain", "twice", "everywhere"):
            administration.create_one(topics[name], 2)
    sent: dict[str, list[str]] = {name: [] for name in topics}
    with TransactionProducer(place.bootstrap_servers, "shop", topics=place.topics) as producer:

        def send(name: str) -> HalfMessage:
            return producer.prepare(Message(topics[name], name.encode(), b"key", headers=[("h", b"\xff")]))

        for _ in range(2):  # before and after a restart
            for name in ("plain", "twice", "apart", "everywhere"):
                message = send(name)
                producer.commit(message)
                sent[name].append(message.transaction_id)
                producer.rollback(send(name))
            producer.flush()
            with running(place, spark, sinks=given, transactions={"timeout": "1h"}) as counts:
                wait_until(lambda counts=counts: counts["committed"] == 4 and counts["rolled_back"] == 4)
    ids = {name: sorted(row["id"] for row in table.read()) for name, table in tables.items()}
    assert ids == {
        "lake": sorted(sent["twice"] + sent["everywhere"]),
        "files": sorted(sent["apart"] + sent["everywhere"]),
        "warehouse": sorted(sent["everywhere"]),
    }
    in_kafka = {
        name: sorted(dict(record.headers)["cb-id"].decode() for record in place.read(topics[name]))
        for name in ("plain", "twice", "everywhere")
    }
    assert in_kafka == {name: sorted(sent[name]) for name in in_kafka}
    assert place.read(place.topics.parked) == []
    row = next(row for row in tables["files"].read() if row["id"] == sent["apart"][0])
    assert (row["value"], row["key"], row["headers"]) == (b"apart", b"key", [{"key": "h", "value": b"\xff"}])


def test_a_table_that_fails_stops_the_job_in_one_sentence_and_gets_everything_later(
    place: Place, spark: SparkSession, tables: dict[str, Table]
) -> None:
    warehouse = tables["warehouse"]
    given = sinks(tables, orders=("kafka", "files", "warehouse"))

    def away(step: Failpoint, batch: int) -> None:
        if step is Failpoint.BETWEEN_DESTINATIONS:
            warehouse.break_it()

    with TransactionProducer(place.bootstrap_servers, "shop", topics=place.topics) as producer:
        message = producer.prepare(Message(place.real_topic, b"value"))
        producer.commit(message)
        producer.flush()
    settings = place.settings(sinks=given, transactions={"timeout": "1h"})
    with (
        pytest.raises(DestinationError, match=r"^Destination warehouse could not take batch 0: ") as error,
        TransactionJob(settings, None, spark, _OnlyHere(away)) as job,
    ):
        wait_until(lambda: job.wait(1), what="the job's end")
    assert error.value.retriable
    assert "\n" not in str(error.value)
    assert warehouse.read() == []
    warehouse.mend_it()
    with running(place, spark, sinks=given, transactions={"timeout": "1h"}):
        wait_until(lambda: bool(warehouse.read()), what="the batch in the table")
    for table in (warehouse, tables["files"]):
        assert [row["id"] for row in table.read()] == [message.transaction_id]
    assert len(place.read(place.real_topic)) == 1


class _OnlyHere:
    """A hook for this process; in tasks, which get a copy, it sees nothing."""

    def __init__(self, seen: Any) -> None:
        self._seen = seen

    def __call__(self, step: Failpoint, batch: int) -> None:
        if self._seen:
            self._seen(step, batch)

    def __reduce__(self) -> tuple[type["_OnlyHere"], tuple[None]]:
        return _OnlyHere, (None,)
