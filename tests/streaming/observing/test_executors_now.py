"""Executors that come and go are told of once each. Spark is a fake; tests/cluster has a real one."""

import logging

import pytest
from py4j.protocol import Py4JError

from streaming.observing.executors_now import ExecutorsNow


class Tracker:
    """Counts the driver, too, as Spark's does."""

    number = 3
    fails = False

    def getExecutorInfos(self) -> list[object]:  # noqa: N802  (Spark's name)
        if self.fails:
            raise Py4JError("an executor that has no address yet")
        return [object()] * self.number


def test_each_change_is_told_once_and_a_loss_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    told: list[int] = []
    tracker, now = Tracker(), ExecutorsNow(told.append)
    now.of(tracker)
    for number in (3, 3, 2, 2, 1, 3):
        tracker.number = number
        now.look()
    assert told == [2, 1, 0, 2]
    levels = [logging.INFO, logging.WARNING, logging.WARNING, logging.INFO]
    assert [record.levelno for record in caplog.records] == levels
    assert "the job has 1 now, and had 2" in caplog.text


def test_where_spark_does_not_say_or_is_being_stopped_nothing_is_told() -> None:
    told: list[int] = []
    tracker, now = Tracker(), ExecutorsNow(told.append)
    now.of(tracker)
    now.look()
    tracker.number = 0
    now.look()
    tracker.fails = True
    now.look()
    assert told == [2]


def test_a_job_on_one_machine_has_none() -> None:
    told: list[int] = []
    ExecutorsNow(told.append).look()
    assert told == []
