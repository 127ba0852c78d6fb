"""Each right of the job that is taken away makes one clear error at its start, which names it."""

import logging

import pytest
from confluent_kafka import KafkaError, KafkaException
from pyspark.sql import SparkSession

from access import Operation, ResourceKind, Right, Role, Whom, rights_of
from access.roles import FOR_PAGE
from checkback import Message, TransactionProducer
from checkback.exceptions import NotAllowedError
from checkback.wire.groups import checkers_group
from streaming import TransactionJob
from streaming.brokers.client import SinkSettings
from streaming.brokers.directory import Brokers, TopicDirectory
from streaming.kafka_sink.probe import describe_limits
from streaming.stops import explained
from streaming.trial import try_rights, try_transaction
from tests.access.guarded import ORDERS, TOPICS, Guarded, guarded
from tests.place import wait_until

__all__ = ["guarded"]
WHOM = Whom(real=(ORDERS,))
RIGHTS = [
    right
    for right in dict.fromkeys((*rights_of(Role.JOB, WHOM), *rights_of(Role.CHECKS, WHOM)))
    if right.name not in {ORDERS, "cb.retry.", "cb.dlq."} and "settles" not in right.why
]
OF_CHECKS = [right for right in RIGHTS if right.name == checkers_group(TOPICS)]
ASKED = [right for right in RIGHTS if right.kind is not ResourceKind.TRANSACTIONAL_ID and right != OF_CHECKS[0]]


@pytest.fixture(scope="module")
def job(guarded: Guarded) -> str:
    for role in (Role.JOB, Role.CHECKS):
        guarded.let_in("job", role, WHOM)
    return "job"


def test_with_all_of_them_nothing_is_said(guarded: Guarded, job: str, caplog: pytest.LogCaptureFixture) -> None:
    try_rights(guarded.settings(job))
    assert [one for one in caplog.records if one.name.startswith("streaming")] == []


@pytest.mark.parametrize("right", ASKED, ids=str)
def test_at_the_start(guarded: Guarded, job: str, right: Right, caplog: pytest.LogCaptureFixture) -> None:
    only_shown = right.operation is Operation.DESCRIBE_CONFIGS or right.why == FOR_PAGE
    caplog.set_level(logging.WARNING, "streaming")
    taken = OF_CHECKS if right in OF_CHECKS else [right]  # Describe alone shows no group that has no member yet
    for one in taken:
        guarded.take(job, one)
    try:
        try_rights(guarded.settings(job))
        found = "\n".join(one.getMessage() for one in caplog.records)
    except NotAllowedError as error:
        found = str(error)
        assert not only_shown
    finally:
        guarded.give(job, *taken)
    assert (f"starts without {right} (" if only_shown else f"grant its user {right} ('checkback") in found, found


def test_the_group_of_check_services_that_run_alone_is_only_shown(
    guarded: Guarded, job: str, caplog: pytest.LogCaptureFixture
) -> None:
    for right in OF_CHECKS:
        guarded.take(job, right)
    try:
        try_rights(guarded.settings(job, checks={"in_job": False}))
    finally:
        guarded.give(job, *OF_CHECKS)
    assert f"starts without {OF_CHECKS[0]} (status page)" in caplog.text


def test_while_it_runs(guarded: Guarded, spark: SparkSession) -> None:
    """Spark's own client is refused."""
    right = Right(Operation.READ, ResourceKind.TOPIC, TOPICS.op)
    guarded.let_in("running", Role.JOB, WHOM)
    place = {"checkpoint": str(guarded.folder / "running"), "state_partitions": 2}
    settings = guarded.settings("running", job=place, checks={"in_job": False}, http={"port": 0})
    with (
        TransactionJob(settings, spark=spark, new_checkpoint=True) as job,
        TransactionProducer(guarded.kafka.bootstrap_servers, "shop") as shop,
    ):
        job.wait(3)
        guarded.take("running", right)
        with shop.transaction(Message("not.there", b"v")):
            pass
        with pytest.raises(NotAllowedError) as ended:
            wait_until(lambda: job.wait(1), "its end")
    assert f"grant its user {Operation.READ} on" in str(ended.value)
    assert TOPICS.op in str(ended.value)


def test_a_topic_of_deliveries_says_which_right_it_wants(
    guarded: Guarded, job: str, caplog: pytest.LogCaptureFixture
) -> None:
    """In a batch: what is committed for it is held for this reason, and nothing else."""
    client = guarded.settings(job).kafka.sink_client | {"bootstrap.servers": guarded.servers}
    see, change = (Right(one, ResourceKind.TOPIC, ORDERS) for one in (Operation.DESCRIBE, Operation.WRITE))
    configs = Right(Operation.DESCRIBE_CONFIGS, ResourceKind.TOPIC, ORDERS)
    guarded.take(job, change)
    hidden = TopicDirectory(brokers := Brokers(client)).look([ORDERS])[ORDERS].refusal
    assert brokers.describe_several([ORDERS]) == {ORDERS: (KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED), {})}
    guarded.give(job, see)
    closed = describe_limits(client, [ORDERS], compressed=False)[ORDERS].refused
    guarded.give(job, change)
    assert (hidden, closed) == tuple(
        f"this job may not {what} that topic: grant its user Write on it" for what in ("see", "write to")
    )
    guarded.take(job, configs)
    assert ORDERS not in describe_limits(client, [ORDERS], compressed=False)
    assert f"grant the job's user {configs}." in caplog.text
    guarded.give(job, configs)


def test_transactions(guarded: Guarded, job: str) -> None:
    (right,) = (one for one in RIGHTS if one.kind is ResourceKind.TRANSACTIONAL_ID)
    settings = guarded.settings(job)
    sink = SinkSettings(guarded.servers, settings.kafka.topics, 60_000, settings.kafka.sink_client)
    try_transaction(sink, "query")
    guarded.take(job, right)
    with pytest.raises(KafkaException) as refused:
        try_transaction(sink, "query")
    guarded.give(job, right)
    found = explained(refused.value, settings)
    assert isinstance(found, NotAllowedError)
    assert f"grant its user {right}. (" in str(found)
