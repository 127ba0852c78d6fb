"""No batch is evaluated that is dated ahead of Kafka's clock."""

import time

import pytest
from confluent_kafka import KafkaError, KafkaException

from checkback.exceptions import JobStoppedError
from checkback.operations.times import difference_ms
from streaming.brokers.client import SinkSettings
from streaming.ownership.clock import JobClock, kafka_ms, running_ms
from tests.place import Place

TOLERANCE, HOUR, DAY = 600_000, 3_600_000, 86_400_000
START = 1_767_225_600_000


class Machine:
    """A machine, and the one that Kafka runs on."""

    def __init__(self) -> None:
        self.wall, self.running, self.kafka = START, 5_000, START
        self.kafka_answers: bool | None = True

    def pass_time(self, ms: int) -> None:
        self.wall += ms
        self.running += ms
        self.kafka += ms

    def ask(self) -> int | None:
        if self.kafka_answers is False:
            raise KafkaException(KafkaError(KafkaError._TRANSPORT))
        return self.kafka if self.kafka_answers else None

    def clock(self) -> JobClock:
        return JobClock(self.ask, TOLERANCE, lambda: self.wall, lambda: self.running)


@pytest.fixture
def machine() -> Machine:
    return Machine()


@pytest.mark.parametrize(
    ("asked", "kafka", "heard", "difference"),
    [(10, 10, 12, 0), (10, 12, 12, 0), (10, 7, 12, 3), (10, 15, 12, -3), (10, 11, 5_000, 0)],
)
def test_what_kafkas_answer_took_is_nobodys_fault(asked: int, kafka: int, heard: int, difference: int) -> None:
    assert difference_ms(asked, kafka, heard) == difference


@pytest.mark.parametrize(("off", "said"), [(4 * DAY, "345600 s ahead of"), (-HOUR, "3600 s behind")])
def test_a_start_on_a_clock_that_is_not_kafkas_is_refused(machine: Machine, off: int, said: str) -> None:
    machine.wall += off
    with pytest.raises(JobStoppedError, match=f"clock is {said} Kafka's.*Set the clock that is wrong"):
        machine.clock().compare()


@pytest.mark.parametrize("off", [0, TOLERANCE, -TOLERANCE])
def test_a_start_on_a_clock_that_is_off_a_little_is_fine(machine: Machine, off: int) -> None:
    machine.wall += off
    machine.clock().compare()


def test_a_batch_dated_days_ahead_is_refused(machine: Machine) -> None:
    clock = machine.clock()
    clock.compare()
    machine.pass_time(HOUR)
    clock.refuse_ahead(7, machine.wall)
    clock.refuse_ahead(7, machine.wall + TOLERANCE)
    clock.refuse_ahead(7, START - DAY)  # begun before the start
    machine.wall += 4 * DAY
    with pytest.raises(JobStoppedError, match=r"batch 7 is dated 345600 s after .* Nothing was evaluated"):
        clock.refuse_ahead(7, machine.wall)


def test_a_machine_that_slept_is_right(machine: Machine) -> None:
    clock = machine.clock()
    clock.compare()
    machine.pass_time(12 * HOUR)  # the clock behind running_ms continues meanwhile
    clock.refuse_ahead(7, machine.wall)


def test_small_steps_do_not_add_up_to_a_refusal_while_kafkas_clock_agrees(machine: Machine) -> None:
    clock = machine.clock()
    clock.compare()
    for _ in range(100):  # set right by 30 s a day
        machine.pass_time(DAY - 30_000)
        machine.wall += 30_000
        machine.kafka += 30_000
        clock.compare_daily()
        clock.refuse_ahead(7, machine.wall)


def test_a_clock_that_creeps_away_from_kafkas_is_found_within_the_tolerance(machine: Machine) -> None:
    clock = machine.clock()
    clock.compare()
    for _ in range(20):
        machine.pass_time(DAY)
        machine.wall += 30_000
        clock.compare_daily()
        clock.refuse_ahead(7, machine.wall)
    machine.pass_time(DAY)
    machine.wall += 30_000
    with pytest.raises(JobStoppedError, match="630 s ahead of"):
        clock.compare_daily()


def test_kafkas_silence_does_not_stop_a_running_job(machine: Machine) -> None:
    clock = machine.clock()
    clock.compare()
    machine.pass_time(2 * DAY)
    machine.kafka_answers = False
    clock.compare_daily()
    clock.refuse_ahead(7, machine.wall)
    with pytest.raises(KafkaException):
        clock.compare()


def test_without_kafkas_clock_a_jump_is_found_all_the_same(machine: Machine) -> None:
    machine.kafka_answers = None
    clock = machine.clock()
    clock.compare()
    machine.pass_time(HOUR)
    clock.refuse_ahead(7, machine.wall)
    with pytest.raises(JobStoppedError):
        clock.refuse_ahead(7, machine.wall + DAY)


def test_the_clock_that_cannot_be_set_runs_forward() -> None:
    before = running_ms()
    time.sleep(0.01)
    assert 10 <= running_ms() - before < 10_000


def test_kafka_says_what_time_it_is(place: Place) -> None:
    before = int(time.time() * 1000)
    said = kafka_ms(SinkSettings(place.bootstrap_servers, place.topics, 60_000))
    assert said is not None
    assert before - 1_000 <= said <= int(time.time() * 1000) + 1_000
