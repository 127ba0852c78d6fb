"""What the job's log says of a batch."""

import logging
import re
from collections import Counter

import pytest

from conf.log_lines import last_line, log_to_stdout
from streaming.batch.batch import BatchReport
from streaming.kafka_sink.reasons import ReasonCounts, reasons_of
from streaming.running import log_batch

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
    assert [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING] == [
        f"batch 7: 3 held: {NO_TOPIC}. It is tried again with growing pauses.",
        "batch 7: 1 rejected: cb-id is missing. Nothing comes of it: see 'checkback rejected'.",
    ]


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
