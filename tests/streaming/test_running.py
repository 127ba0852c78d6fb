"""What the job's log says of a batch."""

import logging
import re
from collections import Counter
from functools import partial
from itertools import count
from threading import Event

import pytest

from checkback.exceptions import CheckbackError, JobFailedError, KafkaLostError, TakenOverError
from checkback.kafka.outages import Outage
from conf.log_lines import last_line, log_to_stdout
from streaming.batch.batch import BatchReport
from streaming.job import TransactionJob
from streaming.kafka_sink.reasons import ReasonCounts, reasons_of
from streaming.running import ended, log_batch

NO_TOPIC = "committed, but not deliverable to orders: there is no such topic"


def report(**counts: int) -> BatchReport:
    return BatchReport(7, 3, 0, Counter(counts))


def test_a_batch_is_one_line(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    log_batch(report(half=2, committed=1))
    log_batch(report())
    assert [record.getMessage() for record in caplog.records] == ["batch 7: 3 written  committed 1  half 2"]


def test_what_was_not_delivered_is_a_warning_with_its_reason_and_what_to_do(caplog: pytest.LogCaptureFixture) -> None:
    made = report(half=4, held=3, rejected=1)
    made.reasons.update({("held", NO_TOPIC): 3, ("rejected", "cb-id is missing"): 1})
    log_batch(made)
    held, rejected = (record.getMessage() for record in caplog.records if record.levelno == logging.WARNING)
    assert held == f"batch 7: 3 held: {NO_TOPIC}. It is tried again with growing pauses."
    assert rejected == "batch 7: 1 rejected: cb-id is missing. Nothing comes of it: see 'checkback rejected'."


def test_reasons_that_somebody_makes_up_are_bounded(caplog: pytest.LogCaptureFixture) -> None:
    found = ReasonCounts()
    for number in range(1_000):
        found.add("rejected", f"{number}" + 10_000 * "x")
    made = report(rejected=1_000)
    made.reasons.update(reasons_of([found.to_json(), found.to_json()])[0])
    assert sum(made.reasons.values()) == 2_000
    assert len(found.to_json()) < 20_000
    log_batch(made)
    assert len(caplog.records) < 10


class Job(TransactionJob):
    """Does what a test says, one thing for each call."""

    def __init__(self, *does: CheckbackError | str) -> None:
        self.does = list(does)

    def wait(self, seconds: float) -> bool:
        return self._next("wait") == "ended"

    def start_again(self) -> None:
        self._next("start_again")

    def _next(self, call: str) -> str:
        follows = self.does.pop(0)
        if isinstance(follows, CheckbackError):
            raise follows
        expected, _, answer = follows.partition(" ")
        assert expected == call
        return answer


def test_while_kafka_is_away_the_job_is_started_again_until_it_runs(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost, stopping = KafkaLostError("Kafka did not answer in time"), Event()
    outage = Outage("running the query", partial(next, count(0, 10_000)))
    monkeypatch.setattr(stopping, "wait", lambda _: False)  # pauses take no time here
    job = Job("wait", lost, lost, lost, "start_again", "wait", "wait ended")
    while not ended(job, outage, stopping):
        pass
    assert job.does == []
    assert caplog.text.count("Kafka did not answer in time") == 1
    assert "Kafka answers again (running the query)" in caplog.text


def test_what_keeps_the_job_from_continuing_ends_it() -> None:
    taken, outage = TakenOverError("Another job"), Outage("running the query", lambda: 0)
    job, stopping = Job(KafkaLostError("away"), taken), Event()
    assert not ended(job, outage, stopping)
    with pytest.raises(TakenOverError):
        ended(job, outage, stopping)
    with pytest.raises(JobFailedError):
        ended(Job(JobFailedError("of something else")), Outage("running the query", lambda: 0), stopping)


def test_lines_have_a_time_and_a_level(capsys: pytest.CaptureFixture[str]) -> None:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    try:
        log_to_stdout()
        logging.getLogger("streaming.running").info("Running")
        logging.getLogger("some.library").info("chatter")
        last = last_line("JobFailedError: Kafka is away")
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
    said = capsys.readouterr().out
    assert last_line("none any more") is None
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}Z INFO    Running\n", said)
    assert last is not None
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}Z ERROR   JobFailedError: Kafka is away", last)
