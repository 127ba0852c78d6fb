"""The claim on what is read: who may run on a pair of topics, and how the run before finds out."""

import json
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition

from checkback.exceptions import CheckpointMismatchError, TakenOverError
from checkback.kafka.librdkafka.transactional import Transactional
from checkback.wire.protocol import Topics
from streaming.brokers.client import SinkSettings
from streaming.kafka_sink.partition_writer import _claim_consumer
from streaming.ownership.claim import Claim, Owner
from streaming.ownership.claimed import refuse_another_run
from streaming.ownership.clock import JobClock
from streaming.ownership.preconditions import BatchPreconditions
from tests.place import Place

_HALF, _OTHER_HALF = "half-of-this-life", "half-made-again"

Claims = Callable[..., Claim]


@pytest.fixture
def claims(place: Place) -> Iterator[Claims]:
    with ExitStack() as opened:

        def claim(job: str = "first", topics: Topics = place.topics) -> Claim:
            made = Claim(SinkSettings(place.bootstrap_servers, topics, 60_000), job)
            opened.callback(made.close)
            return made

        yield claim


def owner(query_id: str, half: str = _HALF) -> Owner:
    return Owner(query_id, job="first", half_topic_id=half)


def written_by_an_older_version(place: Place, job: str, query_id: str) -> dict[str, str | int]:
    """The claim as it was when it hung on the job's name."""
    said: dict[str, str | int] = {"query_id": query_id, "run": uuid.uuid4().hex, "host": "elsewhere", "process": 7}
    said["since"] = "2026-01-01 00:00:00 UTC"
    consumer = Consumer({"bootstrap.servers": place.bootstrap_servers, "group.id": f"checkback-{job}"})
    try:
        consumer.commit(offsets=[TopicPartition(place.topics.progress, 0, 0, json.dumps(said))], asynchronous=False)
    finally:
        consumer.close()
    return said


def seen_by_an_older_version(place: Place, job: str) -> str:
    consumer = Consumer({"bootstrap.servers": place.bootstrap_servers, "group.id": f"checkback-{job}"})
    try:
        (found,) = consumer.committed([TopicPartition(place.topics.progress, 0)], timeout=10)
        return str(json.loads(found.metadata or "")["run"])
    finally:
        consumer.close()


def test_another_name_makes_no_second_delivery_of_the_same_topics(claims: Claims) -> None:
    claims("first").take(owner("query-1"))
    with pytest.raises(CheckpointMismatchError, match=r"half belongs to another checkpoint.*first.*--new-checkpoint"):
        claims("second").judge(owner("query-2"), new_checkpoint=False)
    claims("second").judge(owner("query-2"), new_checkpoint=True)


def test_the_same_checkpoint_takes_over_under_any_name(claims: Claims) -> None:
    first, second = owner("query-1"), owner("query-1")
    before, after = claims("first"), claims("second")
    before.take(first)
    assert after.judge(second, new_checkpoint=False) == [first]
    after.take(second)
    with pytest.raises(TakenOverError, match="Another job has taken over: process"):
        before.refuse_another(first)
    after.refuse_another(second)


def test_jobs_on_other_prefixes_of_a_cluster_have_nothing_to_do_with_each_other(claims: Claims, place: Place) -> None:
    other = Place(place.bootstrap_servers, Topics(f"{place.topics.prefix}b."), place.real_topic, place.folder)
    other.create_topics(real_partitions=4)
    first = owner("query-1")
    claims("same").take(first)
    elsewhere = claims("same", other.topics)
    assert elsewhere.judge(owner("query-2"), new_checkpoint=False) == []
    elsewhere.take(owner("query-2"))
    claims("same").refuse_another(first)


def test_a_claim_on_a_half_topic_that_was_deleted_is_none_on_the_new_one(claims: Claims) -> None:
    claims().take(owner("query-1"))
    assert claims().judge(owner("query-2", _OTHER_HALF), new_checkpoint=False) == []


@pytest.mark.parametrize("half", ["", _HALF])
def test_without_kafkas_ids_the_prefix_counts(claims: Claims, half: str) -> None:
    claims().take(owner("query-1", half))
    with pytest.raises(CheckpointMismatchError):
        claims().judge(owner("query-2", ""), new_checkpoint=False)


@pytest.mark.parametrize("before", ["first", "another-name"])
@pytest.mark.parametrize("query_id", ["query-1", "query-2"])
def test_the_claim_of_an_older_version_is_honoured_under_whatever_name(
    claims: Claims, place: Place, before: str, query_id: str
) -> None:
    said = written_by_an_older_version(place, before, "query-1")
    with pytest.raises(CheckpointMismatchError, match="process 7 on elsewhere"):
        claims("first").judge(owner("query-2"), new_checkpoint=False)
    own, claim = owner(query_id), claims("first")
    assert [one.run for one in claim.judge(own, new_checkpoint=query_id == "query-2")] == [said["run"]]
    claim.take(own)
    assert seen_by_an_older_version(place, before) == own.run, "so that it stops"
    assert claims("first").judge(own, new_checkpoint=False) == [own]


def test_a_job_of_an_older_version_that_takes_the_name_stops_this_one(claims: Claims, place: Place) -> None:
    own, claim = owner("query-1"), claims("first")
    claim.take(own)
    written_by_an_older_version(place, "first", "query-1")
    with pytest.raises(TakenOverError, match="process 7 on elsewhere"):
        claim.refuse_another(own)


def test_what_the_claim_of_an_older_version_says_is_asked_once(claims: Claims, place: Place) -> None:
    own = owner("query-1")
    claims("second").take(own)
    written_by_an_older_version(place, "first", "query-2")
    assert claims("first").judge(own, new_checkpoint=False) == [own]


def test_a_run_that_is_overtaken_while_it_takes_the_topics_leaves_the_claim_alone(claims: Claims) -> None:
    first, second = owner("query-1"), owner("query-1")
    overtaken, after = claims(), claims()
    with pytest.raises(KafkaException, match=r"(?i)fenced"):
        overtaken.take(first, lambda: after.take(second))
    after.refuse_another(second)
    assert claims().owner() == second


def test_a_renewal_takes_no_topics_back(claims: Claims, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other run takes them just after the first look at the claim."""
    first, second = owner("query-1"), owner("query-1")
    before, settings = claims(), SinkSettings(place.bootstrap_servers, place.topics, 60_000)
    before.take(first)
    preconditions = BatchPreconditions(settings, before, first, {}, JobClock(lambda: None, 1000))
    monkeypatch.setattr(preconditions, "refuse_another", lambda: claims().take(second))
    with pytest.raises(TakenOverError):
        preconditions.renew()
    assert claims().owner() == second


def test_a_run_that_is_killed_while_it_takes_the_topics_holds_nobody_up(
    claims: Claims, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its transaction stays open: who waited for its end would wait for longer than they try."""
    first, killed, second = (owner("query-1") for _ in range(3))
    claims().take(first)
    left: list[Transactional] = []

    def killed_at_the_end(transaction: Transactional, _seconds: float) -> None:
        left.append(transaction)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Transactional, "commit", killed_at_the_end)
        with pytest.raises(KeyboardInterrupt):
            claims().take(killed)
    consumer = _claim_consumer(SinkSettings(place.bootstrap_servers, place.topics, 60_000))
    refuse_another_run(consumer, place.topics, first.run)
    after = claims()
    assert after.judge(second, new_checkpoint=False) == [first]
    after.take(second)
    assert after.owner() == second
    with pytest.raises(TakenOverError):
        refuse_another_run(consumer, place.topics, first.run)
