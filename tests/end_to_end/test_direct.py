"""A producer that delivers itself, and the job that delivers the rest."""

from pyspark.sql import SparkSession

from checkback import LocalTransactionState, Message, TransactionOptions, TransactionProducer
from tests.end_to_end.job import running
from tests.place import Place, wait_until
from tests.producing.producing import listener

COMMIT, ROLLBACK = LocalTransactionState.COMMIT, LocalTransactionState.ROLLBACK


def test_each_message_is_delivered_once_by_one_of_the_two(place: Place, spark: SparkSession) -> None:
    states = listener(lambda _, state: LocalTransactionState(state))
    with (
        TransactionProducer(
            *(place.bootstrap_servers, "shop", states),
            topics=place.topics,
            transport="confluent-kafka",
            delivery="direct",
        ) as producer,
        running(place, spark, transactions={"timeout": "1h"}) as counts,
    ):
        by_lane = [
            producer.send_in_transaction(Message(place.real_topic, b"lane %d" % number, b"k"), arg=COMMIT, wait=True)
            for number in range(20)
        ]
        assert all(one.delivered for one in by_lane)
        late = TransactionOptions(deliver_at_ms=1)
        producer.send_in_transaction(Message(place.real_topic, b"due"), arg=COMMIT, options=late)
        producer.send_in_transaction(Message(place.real_topic, b"rolled back"), arg=ROLLBACK)
        missing = f"{place.topics.prefix}nowhere"
        held = producer.send_in_transaction(Message(missing, b"held"), arg=COMMIT, wait=True)
        assert not held.delivered
        producer.flush()
        wait_until(lambda: counts["committed"] >= 22 and counts["rolled_back"] == 1 and counts["held"] == 1)
    assert sorted(record.value for record in place.read(place.real_topic)) == sorted(
        [b"due", *(b"lane %d" % number for number in range(20))]
    )
    assert place.read(place.topics.rejected) == []
