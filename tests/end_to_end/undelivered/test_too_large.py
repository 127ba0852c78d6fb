"""Records of any real size: the job continues, and says what it did not take."""

from kafka import KafkaAdminClient, KafkaProducer
from kafka.admin import ConfigResource
from pyspark.sql import SparkSession

from checkback import Message, TransactionProducer
from checkback.wire.protocol import Action, HalfPosition, Headers, Source, half_headers, op_headers
from tests.end_to_end.job import running
from tests.place import Place, wait_until

ZEROS = bytes(101_000_000)


def as_an_earlier_version_made_it(place: Place) -> None:
    admin = KafkaAdminClient(bootstrap_servers=place.bootstrap_servers)
    admin.alter_configs([ConfigResource("TOPIC", place.topics.half, {"compression.type": "producer"})])
    admin.close()


def test_what_unpacks_to_more_than_kafka_takes_stops_nothing(place: Place, spark: SparkSession) -> None:
    as_an_earlier_version_made_it(place)
    wrong: Headers = [("cb-id", b"wrong")]
    right = half_headers("right", "shop", place.real_topic)
    packed = {"compression_type": "gzip", "max_request_size": 2 * len(ZEROS)}
    with KafkaProducer(bootstrap_servers=place.bootstrap_servers, **packed) as kafka:
        for headers in (wrong, right):
            written = kafka.send(place.topics.half, ZEROS, headers=list(headers), partition=0).get(120)
        half = HalfPosition(0, written.offset)
        op = list(op_headers("right", "shop", half, Action.COMMIT, Source.PRODUCER))
        kafka.send(place.topics.op, b"", headers=op, partition=0).get(120)
    with (
        TransactionProducer(place.bootstrap_servers, "shop", topics=place.topics) as producer,
        running(place, spark, transactions={"timeout": "1h"}) as counts,
    ):
        producer.commit(producer.prepare(Message(place.real_topic, b"good")))
        wait_until(lambda: counts["committed"] == 1 and counts["rejected"] >= 2)
    assert [record.value for record in place.read(place.real_topic)] == [b"good"]
    rejected = [(dict(record.headers), record.value) for record in place.read(place.topics.rejected)]
    found = [(headers, value) for headers, value in rejected if "cb-cut" in headers]
    assert [value for _, value in found] == [bytes(65_536)] * 2
    assert {headers["cb-id"] for headers, _ in found} == {b"wrong", b"right"}
    for cut, _ in found:
        assert cut["cb-reason"] == b"its value is larger than 16 MiB"
        assert cut["cb-cut"].startswith(b"0 101000000 ")
