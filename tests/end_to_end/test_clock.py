"""A clock that goes days ahead ends the job before a batch is evaluated, and costs nothing once it is right."""

from pathlib import Path

import pytest

from checkback import Message, TransactionProducer
from tests.end_to_end.job_process import Job
from tests.place import Place, wait_until
from torture import clock
from torture.clock import SettableClock

_FOUR_DAYS = 4 * 86_400


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
