"""Large messages through the whole job: not kept in its state, and written just as they were sent."""

import random
from pathlib import Path

from kafka import KafkaAdminClient, TopicPartition
from pyspark.sql import SparkSession

from checkback import HalfMessage, Message, TransactionProducer
from checkback.operations.topics import TopicAdministration
from tests.end_to_end.job import running
from tests.place import Place, wait_until

_MEGABYTE = 1_000_000


def _bytes(seed: int, size: int) -> bytes:
    return random.Random(seed).randbytes(size)


def _state_bytes(place: Place) -> int:
    folder = Path(place.settings().job.checkpoint) / "state"
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def test_large_messages_wait_in_kafka_and_arrive_as_they_were_sent(place: Place, spark: SparkSession) -> None:
    late, sizes = f"{place.topics.prefix}late", (3_000, 5_000, 15_000, 20_000, *[900_000] * 40)
    headers = [("trace", b"\x00\xff"), ("trace", b"")]
    long_headers = [*headers, ("long", _bytes(7, 6_000))]
    with TransactionProducer(place.bootstrap_servers, "shop", topics=place.topics) as producer:
        sent: dict[bytes, tuple[bytes | None, bytes | None, list[tuple[str, bytes]]]] = {}
        prepared: list[HalfMessage] = []
        for number, size in enumerate(sizes):
            content = (b"k%d" % number, _bytes(number, size), long_headers if number % 3 == 0 else headers)
            prepared.append(producer.prepare(Message(place.real_topic, content[1], content[0], headers=content[2])))
            sent[prepared[-1].transaction_id.encode()] = content
        parts = [_bytes(100 + at, 200_000) for at in range(3)]
        several = producer.begin()
        for part in parts:
            several = several.add(Message(place.real_topic, part))
        prepared.append(several.prepare())
        sent |= {
            b"%s#%d" % (prepared[-1].transaction_id.encode(), at): (None, part, []) for at, part in enumerate(parts, 1)
        }
        with running(place, spark) as counts:
            wait_until(lambda: counts["half"] == len(prepared), what="the half messages")
            assert _state_bytes(place) < _MEGABYTE  # of 37
            for one in prepared:
                producer.commit(one)
            producer.flush()
            wait_until(lambda: counts["committed"] == len(prepared), what="the commits")
            # with headers so long that they are set aside, too, the mark of a held message among them
            held = (b"key", _bytes(1, 300_000), [("long", _bytes(2, 6_000))])
            producer.commit(producer.prepare(Message(late, held[1], held[0], headers=held[2])))
            producer.flush()
            wait_until(lambda: counts["held"] == 1, what="the half message that the job writes")
            with TopicAdministration(place.bootstrap_servers) as administration:
                administration.create_one(late, 1)
            wait_until(lambda: counts["redelivered"] == 1, what="the delivery")
    (record,) = place.read(late)
    assert (record.key, record.value, list(record.headers[1:])) == held
    arrived = {}
    for record in place.read(place.real_topic):
        (_, transaction_id), *application = record.headers
        arrived[transaction_id] = (record.key, record.value, list(application))
    assert arrived.keys() == sent.keys()
    assert all(arrived[transaction_id] == content for transaction_id, content in sent.items())


def test_a_message_that_kafka_has_no_more_is_parked_and_the_others_go_on(place: Place, spark: SparkSession) -> None:
    with TransactionProducer(place.bootstrap_servers, "shop", topics=place.topics) as producer:
        lost = producer.prepare(Message(place.real_topic, _bytes(1, 50_000), b"key"))
        with running(place, spark) as counts:
            wait_until(lambda: counts["half"] == 1, what="the half message")
            admin = KafkaAdminClient(bootstrap_servers=place.bootstrap_servers)
            admin.delete_records({TopicPartition(place.topics.half, lost.half.partition): lost.half.offset + 1})
            admin.close()
            small = producer.prepare(Message(place.real_topic, b"small"))
            for one in (lost, small):
                producer.commit(one)
            producer.flush()
            wait_until(lambda: counts["committed"] == 2, what="the commits")
    assert [record.value for record in place.read(place.real_topic)] == [b"small"]
    (parked,) = place.read(place.topics.parked)
    assert (parked.key, parked.value) == (b"key", None)
    assert b"its content is gone from the half topic" in dict(parked.headers)["cb-reason"]
    assert counts["gone"] == 1
