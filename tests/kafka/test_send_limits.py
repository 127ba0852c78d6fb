"""Producer groups over a limit: what their producers read of it, and when they refuse to send. No Kafka."""

import time
from collections.abc import Collection, Iterator, Mapping
from threading import Event

import pytest

from checkback.exceptions import GroupOverLimitError, HalfMessageError
from checkback.kafka import send_limits
from checkback.kafka.kafka_python.library import GroupAuthorizationFailedError
from checkback.kafka.send_limits import Notice, SendLimits
from checkback.wire.protocol import Topics
from tests.place import wait_until

LONG = (2**62, "group shop has 21 of quotas.open = 20")


class Kafka:
    """What is stored there; counts who asks."""

    def __init__(self) -> None:
        self.notices: dict[str, Notice] = {}
        self.asked: list[set[str]] = []
        self.error: Exception | None = None
        self.answers = Event()
        self.answers.set()

    def read(self, topic: str, groups: Collection[str]) -> Mapping[str, Notice]:
        assert topic == "cb.progress"
        self.answers.wait(30)
        self.asked.append(set(groups))
        if self.error is not None:
            raise self.error
        return {group: self.notices[group] for group in groups if group in self.notices}


@pytest.fixture
def kafka(monkeypatch: pytest.MonkeyPatch) -> Iterator[Kafka]:
    monkeypatch.setattr(send_limits, "_PAUSE_SECONDS", 0)
    found = Kafka()
    yield found
    found.answers.set()


def refuses(limits: SendLimits, group: str) -> bool:
    try:
        limits.refuse(group)
    except GroupOverLimitError:
        return True
    return False


def test_a_group_over_a_limit_is_refused_until_it_is_below_and_no_other(kafka: Kafka) -> None:
    limits = SendLimits(kafka.read, Topics())
    kafka.notices["shop"] = LONG
    wait_until(lambda: refuses(limits, "shop"))
    assert not refuses(limits, "other")
    with pytest.raises(HalfMessageError, match=r"21 of quotas\.open = 20.*Nothing was written") as found:
        limits.refuse("shop")
    assert found.value.retriable
    kafka.notices.clear()
    wait_until(lambda: not refuses(limits, "shop"))


def test_a_notice_of_a_job_that_has_ended_is_no_reason_for_long(kafka: Kafka) -> None:
    kafka.notices["shop"] = (time.time_ns() // 1_000_000, "it has ended")
    limits = SendLimits(kafka.read, Topics())
    for _ in range(3):
        before = len(kafka.asked)
        assert not refuses(limits, "shop")
        wait_until(lambda before=before: len(kafka.asked) > before)


def test_nobody_waits_for_kafka(kafka: Kafka) -> None:
    kafka.answers.clear()
    kafka.notices["shop"] = LONG
    limits = SendLimits(kafka.read, Topics())
    assert not any(refuses(limits, "shop") for _ in range(100))
    assert kafka.asked == []
    kafka.answers.set()
    wait_until(lambda: refuses(limits, "shop"))


def test_who_may_not_read_goes_on_and_is_told_the_right(kafka: Kafka, caplog: pytest.LogCaptureFixture) -> None:
    kafka.error = GroupAuthorizationFailedError("GROUP/checkback-limit:shop: ")
    limits = SendLimits(kafka.read, Topics(), "shop")
    assert not refuses(limits, "shop")
    wait_until(lambda: limits._next < float("inf"))
    assert not any(refuses(limits, "shop") for _ in range(100))
    assert len(kafka.asked) == 1
    assert "grant its user Describe on the group checkback-limit:shop. (" in caplog.text


def test_after_an_error_kafka_is_asked_again(kafka: Kafka, caplog: pytest.LogCaptureFixture) -> None:
    kafka.error = ConnectionError("away")
    kafka.notices["shop"] = LONG
    limits = SendLimits(kafka.read, Topics())
    wait_until(lambda: not refuses(limits, "shop") and len(kafka.asked) > 1)
    kafka.error = None
    wait_until(lambda: refuses(limits, "shop"))
    assert caplog.text == ""


def test_a_group_that_sends_seldom_is_refused_as_well(kafka: Kafka) -> None:
    limits = SendLimits(kafka.read, Topics())
    kafka.notices["shop"] = LONG
    wait_until(lambda: refuses(limits, "shop"))
    wait_until(lambda: not refuses(limits, "other") and kafka.asked[-1] == {"other"})
    assert refuses(limits, "shop")


def test_groups_that_somebody_makes_up_are_bounded(kafka: Kafka) -> None:
    kafka.answers.clear()
    limits = SendLimits(kafka.read, Topics())
    for number in range(5_000):
        limits.refuse(f"made-up-{number}")
    kafka.answers.set()
    wait_until(lambda: bool(kafka.asked))
    limits.refuse("shop")
    wait_until(lambda: len(kafka.asked) > 1)
    assert max(map(len, kafka.asked)) == 1_000
