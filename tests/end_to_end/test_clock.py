"""A clock that goes days ahead ends the job before a batch is evaluated; one within the tolerance costs nothing."""

from pathlib import Path

import pytest

from checkback import (
    CallableListener,
    CheckEndpoint,
    LocalTransactionState,
    Message,
    SigningKey,
    TransactionProducer,
)
from checkback.operations.topics import TopicAdministration
from tests.end_to_end.job_process import Job
from tests.place import Place, wait_until
from tests.streaming.later.scene import retry_of, write
from torture import clock
from torture.clock import SettableClock

_FOUR_DAYS = 4 * 86_400
_NINE_MINUTES = 540
POLICY = """
[accounts.shop]
groups = ["shop", "points"]
other_topics = "allow"
keys = ["shop-1"]
[accounts.programs]
keys = ["job-1"]
roles = ["job", "checks"]
"""


@pytest.mark.skipif(not clock.can_be_set(), reason="needs Linux and a C compiler")
def test_four_days_ahead_park_no_message_and_the_right_clock_is_started_on_at_once(
    place: Place, tmp_path: Path
) -> None:
    settable = SettableClock(tmp_path)
    job = Job(place, {**settable.environment(), "CHECKBACK_CHECKS__IN_JOB": "false"})
    with TransactionProducer(place.bootstrap_servers, "shop", topics=place.topics) as producer:
        try:
            job.start()
            undecided = producer.prepare(Message(place.real_topic, b"undecided"))
            producer.commit(producer.prepare(Message(place.real_topic, b"first")))
            wait_until(lambda: len(place.read(place.real_topic)) == 1, "the first message")
            wait_until(lambda: len(place.read(place.topics.check)) == 1, what="the check of the undecided one")
            settable.set(_FOUR_DAYS)  # 1. while it runs
            assert job.ends() == 1
            job.start()  # 2. at its start
            assert job.ends() == 1
            settable.set(0)  # 3. right again
            job.start()
            producer.commit(undecided)
            wait_until(lambda: len(place.read(place.real_topic)) == 2, "the undecided message")
            assert job.terminate() == 0
        finally:
            job.kill()
    assert place.read(place.topics.parked) == []
    said = job.said()
    assert "JobStoppedError: The clock is ahead by more than job.clock_tolerance: batch" in said
    assert "s ahead of Kafka's, more than job.clock_tolerance" in said
    assert "Traceback" not in said


@pytest.mark.skipif(not clock.can_be_set(), reason="needs Linux and a C compiler")
def test_within_the_tolerance_nothing_of_a_group_with_keys_is_rejected_and_the_clock_may_be_set_right(
    place: Place, tmp_path: Path
) -> None:
    policy, secrets, late = tmp_path / "access.toml", tmp_path / "secrets.toml", f"{place.topics.prefix}late"
    retries = place.topics.retry("points")
    policy.write_text(POLICY, encoding="utf-8")
    secrets.write_text(f'shop-1 = "{"s" * 40}"\njob-1 = "{"j" * 40}"\n', encoding="utf-8")
    secrets.chmod(0o600)
    settable = SettableClock(tmp_path)
    settable.set(_NINE_MINUTES)
    access = {"POLICY": str(policy), "SECRETS": str(secrets), "KEY": "job-1"}
    quick = {f"CHECKBACK_TRANSACTIONS__{name}": "1s" for name in ("TIMEOUT", "CHECK_INTERVAL")}
    with_access = {f"CHECKBACK_ACCESS__{name}": value for name, value in access.items()}
    job = Job(place, {**settable.environment(), **with_access, **quick})
    key = SigningKey("shop-1", "s" * 40)
    committed = CallableListener(*[lambda *_: LocalTransactionState.COMMIT] * 2)
    with (
        TransactionProducer(place.bootstrap_servers, "shop", topics=place.topics, signing=key) as producer,
        CheckEndpoint(place.bootstrap_servers, "shop", committed, topics=place.topics, signing=key),
        TopicAdministration(place.bootstrap_servers) as administration,
    ):
        try:
            administration.create_one(retries, 1)
            job.start()
            producer.commit(producer.prepare(Message(late, b"held")))
            producer.prepare(Message(place.real_topic, b"asked about"))
            write(place, b"again", headers=retry_of(place))
            wait_until(lambda: len(place.read(place.real_topic)) == 1, "what was asked about")
            wait_until(lambda: len(place.read(retries)) == 1, "the retry")
            administration.create_one(late, 1)
            wait_until(lambda: len(place.read(late)) == 1, "the held message")
            assert job.terminate() == 0
            settable.set(0)
            job.start()
            producer.commit(producer.prepare(Message(place.real_topic, b"after the clock was set right")))
            wait_until(lambda: len(place.read(place.real_topic)) == 2, "the message after")
            assert job.terminate() == 0
        finally:
            job.kill()
    assert place.read(place.topics.rejected) == []
