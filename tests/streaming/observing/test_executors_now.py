"""Executors that come and go are told of once each. Spark is a fake; tests/cluster has a real one."""

import logging

import pytest

from streaming.observing.executors_now import ExecutorsNow


class Tracker:
    """Counts the driver, too, as Spark's does."""

    number = 3

    def getExecutorInfos(self) -> list[object]:  # noqa: N802  (Spark's name)
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
    assert [record.levelno for record in caplog.records] == [
        *(logging.INFO, logging.WARNING, logging.WARNING, logging.INFO)
    ]
    assert "the job has 1 now, and had 2" in caplog.text


def test_a_job_on_one_machine_has_none() -> None:
    told: list[int] = []
    ExecutorsNow(told.append).look()
    assert told == []
