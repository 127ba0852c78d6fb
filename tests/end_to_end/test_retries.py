"""The whole job, and consumers whose listener fails: messages come again in their time, die, and are resent."""

import threading
from collections import Counter

from pyspark.sql import SparkSession
from typer.testing import CliRunner

from checkback import Message, TransactionProducer
from checkback.consumer import ConsumeResult, ConsumerSettings, PushConsumer, ReceivedMessage, StartAt
from checkback_cli import app
from tests.consumer.waiting import Recording
from tests.end_to_end.job import running
from tests.place import Place, wait_until

_RESENT = "points"


def test_messages_come_again_with_the_levels_then_are_dead_and_are_resent(place: Place, spark: SparkSession) -> None:
    """Two groups read the same messages: what fails in one does not come to the other."""
    repaired = threading.Event()

    def says(message: ReceivedMessage, _: int) -> ConsumeResult:
        if (message.value == b"never" and not repaired.is_set()) or (message.value == b"once" and not message.tries):
            raise ValueError(message.value)
        return ConsumeResult.SUCCESS

    settings = ConsumerSettings(
        start_at=StartAt.FIRST, retry_levels=(9.0, 1.5, 3.5), first_retry_level=2, max_reconsume_times=2
    )
    seen = {group: Recording(says) for group in (_RESENT, "other")}
    consumers = [
        PushConsumer(
            *(place.bootstrap_servers, group, recording, place.real_topic), settings=settings, topics=place.topics
        )
        for group, recording in seen.items()
    ]
    with running(place, spark) as counts, consumers[0], consumers[1]:
        with TransactionProducer(place.bootstrap_servers, "shop", topics=place.topics) as producer:
            sent = {
                value: producer.send(Message(place.real_topic, value, b"k", [("a", b"1"), ("a", b"2")])).transaction_id
                for value in (b"well", b"once", b"never")
            }
        for consumer in consumers:
            wait_until(lambda: consumer.figures().all.dead == 1, "the dead letter")  # noqa: B023  (called at once)
            wait_until(lambda: consumer.figures().all.done == 2, "the others")  # noqa: B023  (likewise)
        repaired.set()
        resend(place, _RESENT)
        wait_until(lambda: consumers[0].figures().all.done == 3, "the one that was resent")
    for group, recording in seen.items():
        tries = [0, 1, 2, 0] if group == _RESENT else [0, 1, 2]
        assert recording.counts == Counter({b"well": 1, b"once": 2, b"never": len(tries)})
        assert [message.tries for message in recording.messages if message.value == b"never"] == tries
        for message in recording.messages:
            value = message.value or b""
            assert (message.topic, message.id, message.key) == (place.real_topic, sent[value], b"k")
            assert list(message.headers) == [("cb-id", sent[value].encode()), ("a", b"1"), ("a", b"2")]
        dead = place.read(place.topics.dead(group))[0]
        assert (dead.value, dict(dead.headers)["checkback-reason"]) == (
            b"never",
            b"tried 3 times in vain; at last ValueError: b'never'",
        )
        levels = Counter(
            1 if int(dict(record.headers)["cb-deliver-at"]) - record.timestamp <= 1_500 else 2
            for record in place.read(place.topics.later)
            if dict(record.headers)["cb-group"] == group.encode() and "cb-deliver-at" in dict(record.headers)
        )
        assert levels == Counter({1: 2, 2: 1})  # the first level twice, then the second, less what it took to write
    assert counts["rejected"] == 0
    assert len(list((place.folder / "checkpoint").glob("checkback-later-*"))) == 1


def resend(place: Place, group: str) -> None:
    environment = {
        "CHECKBACK_KAFKA__BOOTSTRAP_SERVERS": place.bootstrap_servers,
        "CHECKBACK_KAFKA__TOPIC_PREFIX": place.topics.prefix,
    }
    done = CliRunner(env=environment).invoke(app, ["dlq", "resend", "--all", "--group", group, "--yes"])
    assert done.stdout.endswith("1 resent.\n"), (done.output, done.exception)
