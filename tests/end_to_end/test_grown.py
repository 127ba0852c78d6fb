"""Half and op topic are grown while the job runs."""

from kafka import KafkaAdminClient
from pyspark.sql import SparkSession

from checkback import Message, TransactionProducer
from checkback.operations.topics import TopicAdministration
from conf import TransactionSettings
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
