"""The claim on what is read: who may run on a pair of topics, and how the run before finds out."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from confluent_kafka import KafkaException

from checkback.exceptions import CheckpointMismatchError, TakenOverError
from checkback.kafka.librdkafka.transactional import Transactional
from checkback.wire.groups import claim_group
from checkback.wire.protocol import Topics
from streaming.brokers.client import SinkSettings
from streaming.kafka_sink.partition_writer import _consumer, refuse_another_run
from streaming.ownership.claim import Claim, Owner
from streaming.ownership.clock import JobClock
from streaming.ownership.preconditions import BatchPreconditions
from tests.place import Place

_HALF, _OTHER_HALF = "half-of-this-life", "half-made-again"

Claims = Callable[..., Claim]


@pytest.fixture
def claims(place: Place) -> Iterator[Claims]:
    with ExitStack() as opened:

        def claim(topics: Topics = place.topics) -> Claim:
            claim = Claim(SinkSettings(place.bootstrap_servers, topics, 60_000))
            opened.callback(claim.close)
            return claim

        yield claim


def owner(query_id: str, half: str = _HALF) -> Owner:
    return Owner(query_id, job="first", half_topic_id=half)


def test_another_name_makes_no_second_delivery_of_the_same_topics(claims: Claims) -> None:
    claims().take(owner("query-1"))
    with pytest.raises(CheckpointMismatchError, match=r"half belongs to another checkpoint.*first.*--new-checkpoint"):
        claims().judge(owner("query-2"), new_checkpoint=False)
    claims().judge(owner("query-2"), new_checkpoint=True)


def test_the_same_checkpoint_takes_over(claims: Claims) -> None:
    first, second = owner("query-1"), owner("query-1")
    before, after = claims(), claims()
    before.take(first)
    after.judge(second, new_checkpoint=False)
    assert after.owner() == first
    after.take(second)
    with pytest.raises(TakenOverError, match="Another job has taken over: process"):
        before.refuse_another(first)
    after.refuse_another(second)


def test_jobs_on_other_prefixes_of_a_cluster_have_nothing_to_do_with_each_other(claims: Claims, place: Place) -> None:
    other = Place(place.bootstrap_servers, Topics(f"{place.topics.prefix}b."), place.real_topic, place.folder)
    other.create_topics(real_partitions=4)
    first = owner("query-1")
    claims().take(first)
    elsewhere = claims(other.topics)
    elsewhere.judge(owner("query-2"), new_checkpoint=False)
    elsewhere.take(owner("query-2"))
    claims().refuse_another(first)


def test_a_claim_on_a_half_topic_that_was_deleted_is_none_on_the_new_one(claims: Claims) -> None:
    claims().take(owner("query-1"))
    claims().judge(owner("query-2", _OTHER_HALF), new_checkpoint=False)


@pytest.mark.parametrize("half", ["", _HALF])
def test_without_kafkas_ids_the_prefix_counts(claims: Claims, half: str) -> None:
    claims().take(owner("query-1", half))
    with pytest.raises(CheckpointMismatchError):
        claims().judge(owner("query-2", ""), new_checkpoint=False)


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
    settings = SinkSettings(place.bootstrap_servers, place.topics, 60_000)
    consumer = _consumer(settings, claim_group(place.topics), "read_uncommitted")
    refuse_another_run(consumer, place.topics, first.run)
    after = claims()
    after.judge(second, new_checkpoint=False)
    assert after.owner() == first
    after.take(second)
    assert after.owner() == second
    with pytest.raises(TakenOverError):
        refuse_another_run(consumer, place.topics, first.run)
