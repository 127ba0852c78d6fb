"""The whole job with a topic that refuses, one that is missing and a good one."""

from pyspark.sql import SparkSession

from checkback import Message, TransactionProducer
from checkback.operations.parked import ParkedMessages
from checkback.operations.topics import TopicAdministration
from tests.end_to_end.job import running
from tests.place import Place, wait_until


def test_good_messages_arrive_and_an_operator_sees_why_others_did_not(place: Place, spark: SparkSession) -> None:
    narrow = f"{place.topics.prefix}narrow"
    with TopicAdministration(place.bootstrap_servers) as administration:
        administration.create_one(narrow, 1, 1, {"max.message.bytes": "1000"})
        wait_until(lambda: narrow in administration.partitions((narrow,)))
    with (
        TransactionProducer(place.bootstrap_servers, "shop", topics=place.topics) as producer,
        running(place, spark, transactions={"timeout": "1h"}) as counts,
    ):
        for round_number in range(1, 4):  # batches that come after the first refusal, too
            sent = [
                producer.prepare(Message(narrow, b"x" * 2000)),
                producer.prepare(Message(narrow, b"fits")),
                producer.prepare(Message("no-such-topic", b"nowhere")),
                *(
                    producer.prepare(Message(place.real_topic, b"%d-%d" % (round_number, number)))
                    for number in range(20)
                ),
            ]
            several = (
                producer.begin()
                .add(Message(narrow, b"x" * 3000))
                .add(Message(place.real_topic, b"%d-20" % round_number))
                .prepare()
            )
            for message in (*sent, several):
                producer.commit(message)
            producer.flush()
            # those for the missing topic are tried again meanwhile
            wait_until(lambda: counts["parked"] == 2 * round_number and counts["held"] >= round_number)  # noqa: B023  (called in this round)
    good = sorted(b"%d-%d" % (round_number, number) for round_number in range(1, 4) for number in range(21))
    assert sorted(record.value for record in place.read(place.real_topic)) == good
    assert [record.value for record in place.read(narrow)] == [b"fits"] * 3
    with ParkedMessages(place.bootstrap_servers, place.topics) as parked:
        listed = parked.read()
    assert [message.topic for message in listed] == [narrow] * 6
    assert not any(message.undecided for message in listed)
    reasons = {message.transaction_id: message.reason for message in listed}
    assert reasons[sent[0].transaction_id] == (
        f"committed, but not deliverable to {narrow}: "
        "it has 2,109 bytes, and that topic takes fewer than 1,001 (max.message.bytes)"
    )
    half = [dict(record.headers) for record in place.read(place.topics.half)]
    held = {one["cb-id"] for one in half if "cb-held" in one and one["cb-action"] == b"commit"}
    assert sent[2].transaction_id.encode() in held
    assert len(held) == 3
    assert "takes fewer than 1,001" in reasons[f"{several.transaction_id}#1"]
