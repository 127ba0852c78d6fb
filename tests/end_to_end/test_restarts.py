"""A job that stops soon, starts again, and does not start with settings that its checkpoint does not fit."""

import time

import pytest
from pyspark.sql import SparkSession

from checkback import LocalTransactionState, Message, TransactionOptions, TransactionProducer
from checkback.exceptions import CheckpointMismatchError
from tests.end_to_end.job import running
from tests.end_to_end.test_job import Shop
from tests.place import Place, wait_until

COMMIT = LocalTransactionState.COMMIT


def test_a_stopped_job_goes_on_where_it_was_and_a_delayed_message_comes_at_its_time(
    place: Place, spark: SparkSession
) -> None:
    hour = {"timeout": "1h"}
    with TransactionProducer(place.bootstrap_servers, "shop", Shop(), topics=place.topics) as producer:
        messages = [producer.prepare(Message(place.real_topic, b"%d" % number)) for number in range(10)]
        with running(place, spark, transactions=hour) as counts:
            begun = time.monotonic()
            producer.commit(messages[0])
            wait_until(lambda: counts["committed"] == 1)
            seconds = 10 + 5 * (time.monotonic() - begun)  # later than this machine takes until the job has stopped
            at_ms = int((time.time() + seconds) * 1000)
            options = TransactionOptions(deliver_at_ms=at_ms)
            producer.send_in_transaction(Message(place.real_topic, b"later"), arg=COMMIT, options=options)
            wait_until(lambda: counts["delayed"] == 1)
            stopping = time.monotonic() + 1  # it is waited for once more
        assert time.monotonic() - stopping < 30
        assert all(query.name != place.topics.prefix.rstrip(".") for query in spark.streams.active)
        assert [record.value for record in place.read(place.real_topic)] == [b"0"]
        for message in messages[1:]:
            producer.commit(message)
        producer.flush()
        with running(place, spark, transactions=hour) as counts:
            wait_until(lambda: counts["committed"] == 10)
    records = place.read(place.real_topic)
    assert sorted(record.value for record in records) == [*(b"%d" % n for n in range(10)), b"later"]
    (later,) = [record for record in records if record.value == b"later"]
    assert at_ms <= later.timestamp, "the broker's clock is this machine's"
    with (
        pytest.raises(CheckpointMismatchError, match="segment_size = 4096, now it is 64"),
        running(place, spark, transactions={"segment_size": 64}),
    ):
        pass
