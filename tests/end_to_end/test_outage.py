"""Kafka is away for longer than a batch waits: the job waits, with its page, and continues."""

import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass

import pytest
from confluent_kafka import KafkaError, KafkaException
from pyspark.sql import SparkSession

from checkback import Message, TransactionProducer
from checkback.exceptions import KafkaLostError, TakenOverError
from checkback.local.kafka import free_port
from streaming import TransactionJob
from streaming.batch.failpoints import Failpoint
from streaming.brokers.client import SinkSettings
from streaming.ownership.claim import Claim, Owner
from tests.place import Place, wait_until


@dataclass
class Away:
    """What a batch hears from Kafka when it begins."""

    now: bool = False

    def __call__(self, step: Failpoint, _batch: int) -> None:
        if self.now and step is Failpoint.BATCH_STARTS:
            raise KafkaException(KafkaError(KafkaError._ALL_BROKERS_DOWN))


@contextmanager
def waiting(place: Place, spark: SparkSession) -> Iterator[tuple[TransactionJob, Away]]:
    """A job that has delivered a message, and has lost Kafka since."""
    away = Away()
    settings = place.settings(http={"port": free_port()})
    with TransactionJob(settings, spark=spark, failpoint=away) as job:
        deliver(place, job, b"before")
        away.now = True
        with pytest.raises(KafkaLostError):
            wait_until(lambda: job.wait(1), "the loss of Kafka")
        yield job, away


def deliver(place: Place, job: TransactionJob, value: bytes) -> None:
    with TransactionProducer(place.bootstrap_servers, "shop", topics=place.topics) as producer:
        producer.send(Message(place.real_topic, value))
    wait_until(lambda: job.wait(1) or value in {one.value for one in place.read(place.real_topic)}, "a delivery")


def page_of(job: TransactionJob, path: str) -> str:
    with urllib.request.urlopen(f"{job.page}{path}", timeout=30) as answer:  # noqa: S310  (its own page)
        return str(answer.read().decode())


def test_the_page_stays_and_the_query_starts_again_when_kafka_answers(place: Place, spark: SparkSession) -> None:
    with waiting(place, spark) as (job, away):
        assert 'checkback_events_total{event="committed"} 1.0' in page_of(job, "/metrics")
        (note,) = job._observation.facts().notes
        assert note.startswith(f"Kafka at {place.bootstrap_servers} does not answer")
        service = job._checks
        away.now = False
        job.start_again()
        deliver(place, job, b"after")
        assert job._checks is service
        assert job._observation.facts().notes == ()
        assert 'checkback_events_total{event="committed"} 2.0' in page_of(job, "/metrics")
    assert sorted(one.value for one in place.read(place.real_topic)) == [b"after", b"before"]


def test_a_job_that_has_waited_takes_nothing_back_from_another(place: Place, spark: SparkSession) -> None:
    with waiting(place, spark) as (job, away):
        sink = SinkSettings.of(place.settings())
        with closing(Claim(sink)) as claim:
            owner = claim.owner()
            assert owner is not None
            claim.take(Owner(owner.query_id, half_topic_id=owner.half_topic_id))
        away.now = False
        with pytest.raises(TakenOverError, match="Another job has taken over"):
            job.start_again()
