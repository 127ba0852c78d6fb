"""Half and op topic are grown while the job runs; ops for places that there are not leave no state."""

from kafka import KafkaAdminClient
from pyspark.sql import SparkSession

from checkback import Message, TransactionProducer
from checkback.operations.topics import TopicAdministration
from checkback.wire.protocol import Action, HalfPosition, Source, op_headers
from conf import TransactionSettings
from state import segment_from_bytes
from state.segment import BEYOND_REASON, MISSED_REASON
from tests.end_to_end.job import running
from tests.place import HALF_PARTITIONS, STATE_PARTITIONS, Place, wait_until

MORE = 2 * HALF_PARTITIONS


def grow(place: Place) -> None:
    """The half topic alone, as it should not be done; then as the command does it."""
    admin = KafkaAdminClient(bootstrap_servers=place.bootstrap_servers)
    admin.create_partitions({place.topics.half: MORE})
    admin.close()
    topics = (place.topics.half, place.topics.op)
    with TopicAdministration(place.bootstrap_servers) as administration:
        wait_until(lambda: administration.partitions(topics)[place.topics.half] == MORE)
        administration.create(
            place.topics,
            partitions=HALF_PARTITIONS,
            progress_partitions=STATE_PARTITIONS,
            replication=1,
            times=TransactionSettings(),
        )
        wait_until(lambda: administration.partitions(topics) == dict.fromkeys(topics, MORE))


def send(place: Place, number: int) -> set[int]:
    """Messages in all half partitions; gives those."""
    with TransactionProducer(place.bootstrap_servers, "shop", topics=place.topics) as producer:
        sent = [producer.prepare(Message(place.real_topic, b"%d" % n)) for n in range(number)]
        for message in sent:
            producer.commit(message)
    return {message.half.partition for message in sent}


def test_topics_are_grown_while_the_job_runs_and_a_start_goes_on_with_them(place: Place, spark: SparkSession) -> None:
    with running(place, spark, transactions={"timeout": "1h"}) as counts:
        send(place, 10)
        wait_until(lambda: counts["committed"] == 10)
        grow(place)
        assert send(place, 64 * MORE) == set(range(MORE))
        wait_until(lambda: counts["committed"] == 10 + 64 * MORE)
    with running(place, spark, transactions={"timeout": "1h"}) as counts:
        send(place, 10)
        wait_until(lambda: counts["committed"] == 10)
    assert len(place.read(place.real_topic)) == 20 + 64 * MORE


def test_ops_for_places_that_there_are_not_are_rejected_and_leave_no_state(place: Place, spark: SparkSession) -> None:
    with running(place, spark, transactions={"timeout": "1h"}) as counts, place.producer() as kafka:
        send(place, 1)
        broken = kafka.send(place.topics.half, b"no half message", partition=1).get(120).offset
        for partition, offset in [*((0, 4_096 * n) for n in range(1, 200)), (1, broken)]:
            headers = op_headers("tx", "shop", HalfPosition(partition, offset), Action.COMMIT, Source.PRODUCER)
            kafka.send(place.topics.op, b"", headers=list(headers), partition=partition)
        kafka.flush()
        wait_until(lambda: counts["committed"] == 1 and counts["rejected"] == 201)
    reasons = [dict(record.headers)["cb-reason"].decode() for record in place.read(place.topics.rejected)]
    assert (reasons.count(BEYOND_REASON), reasons.count(MISSED_REASON)) == (199, 1)
    rows = spark.read.format("statestore").load(str(place.folder / "checkpoint")).selectExpr("value.*").collect()
    segments = [segment_from_bytes(bytes(row.groupState.content)) for row in rows]
    assert [segment.early.count for segment in segments] == [0]
