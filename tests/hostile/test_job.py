"""The job on topics full of hostile records: what lies between is delivered, and each of them is set aside alone."""

from collections import Counter

from pyspark.sql import SparkSession

from checkback.operations.topics import TopicAdministration
from checkback.wire.protocol import FROM, ID
from streaming import TransactionJob
from tests.by_hand import Record
from tests.hostile.place import kinds
from tests.hostile.records import READABLE, UNREADABLE, write_all
from tests.place import Place, wait_until

GROUP_NAME = "points"


def test_what_lies_between_is_delivered(place: Place, spark: SparkSession) -> None:
    goods = write(place)
    settings = place.settings(transactions={"timeout": "1h"}, checks={"in_job": False})
    with TransactionJob(settings, lambda _: None, spark) as job:

        def delivered() -> bool:
            assert not job.wait(0.5), "the job has stopped"
            arrived = [*place.read(place.real_topic), *place.read(place.topics.retry(GROUP_NAME))]
            found = Counter(dict(record.headers)[ID] for record in arrived)
            return all(found[name] == count for name, count in goods.items())

        wait_until(delivered, "the good ones are delivered")
    rejected = place.read(place.topics.rejected)
    for topic in (place.topics.half, place.topics.op, place.topics.later):
        of_topic = [one.value for one in rejected if dict(one.headers)[FROM].startswith(f"{topic}:".encode())]
        assert {record[1] for record in UNREADABLE.values()} <= set(of_topic), topic
        assert READABLE["200,000 headers"][1] in of_topic, topic


def write(place: Place) -> Counter[bytes]:
    """All of them; how often each good one is to be delivered, by its id."""
    topics = place.topics
    half, op = kinds(place)[topics.half], kinds(place)[topics.op]
    found: Counter[bytes] = Counter()
    committed: Record = (b"k", b"v", [*half.good[2], (b"cb-action", b"commit")])
    by_op = (b"k", b"v", [(b"cb-id", b"by op"), *half.good[2][1:]])
    hostile = list(half.hostile())
    wrote = write_all(place.bootstrap_servers, topics.half, [by_op, *hostile], good=committed)
    found[b"good"] += wrote - len(hostile) - 1
    says_so = (
        b"k",
        b"v",
        [*by_op[2][:2], (b"cb-half", b"0:1"), (b"cb-action", b"commit"), (b"cb-source", b"producer")],
    )
    write_all(place.bootstrap_servers, topics.op, op.hostile(), good=says_so)
    found[b"by op"] = 1
    with TopicAdministration(place.bootstrap_servers) as administration:
        administration.create_one(topics.retry(GROUP_NAME), 1)
        administration.wait_for([topics.retry(GROUP_NAME)])
    own = {b"cb-group": GROUP_NAME.encode(), b"cb-topic": topics.retry(GROUP_NAME).encode()}
    retry = [(name, own.get(name, content)) for name, content in committed[2]]
    again = (b"k", b"v", [*retry, (b"cb-deliver-at", b"1"), (b"checkback-pause", b"0")])
    wrote = write_all(place.bootstrap_servers, topics.later, hostile, good=again)
    found[b"good"] += wrote - len(hostile)
    return found
