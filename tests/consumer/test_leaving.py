"""Leaving a group whose brokers do not answer takes no longer than is said."""

import threading

import pytest

from checkback.consumer.clients import leaving


def test_what_does_not_come_back_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(leaving, "LEAVE_SECONDS", 0.05)
    over = threading.Event()

    def leave() -> None:
        over.wait(60)

    leaving.leave_in_time(leave)
    over.set()
    assert "The group was not left" in caplog.text
