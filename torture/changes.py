"""Faults by change, not only by death: of settings, topics, the clock, by a long outage and by a second job."""

import time
from collections.abc import Mapping

from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic  # type: ignore[attr-defined] # not re-exported

from checkback.local import LocalKafka
from torture.processes import JobProcess
from torture.schedule import Round
from torture.system import System
from torture.waiting import GIVE_UP_SECONDS, NotRecoveredError

LATE_SECONDS = 15.0
LEADERLESS_SECONDS = 60.0
AWAY_SECONDS = 90.0
_HELD_AT_LEAST = 5
_ARRIVE_SECONDS = 700.0
"""A held message is tried again after pauses that grow to 10 min: on a busy machine one may be missed by a second."""
_HOUR = 3600
_FOUR_DAYS = 4 * 24 * _HOUR
_ASK_SECONDS = 30.0

SETTINGS: tuple[Mapping[str, str], ...] = (
    {"TRANSACTIONS__LATE_END_TRANSACTION": "require_check", "TRANSACTIONS__TIMEOUT": "1s"},
    {"JOB__CLOCK_TOLERANCE": "630s", "TRANSACTIONS__CHECK_INTERVAL": "3s", "TRANSACTIONS__CHECK_INTERVAL_MAX": "3s"},
    {"TRANSACTIONS__LATE_END_TRANSACTION": "require_check", "TRANSACTIONS__ON_EXHAUSTED": "rollback"},
    {"TRANSACTIONS__TIMEOUT": "4s", "TRANSACTIONS__EARLY_OP_TTL": "30min"},
    {},
)
"""What an operator sets while the job is down, one after the other, over what the run begins with.

A raised clock tolerance makes timers late by the difference once: 30 s here, over the default of 10 min, so that the
end of a run need not wait for longer.
"""


def change_settings(system: System, this: Round) -> float:
    """The job is down, its last batch half done perhaps, and starts again with other settings."""
    system.changed_settings = dict(SETTINGS[this.number % len(SETTINGS)])
    since = time.time()
    system.restart_job()
    return since


def make_topic_late(system: System, this: Round) -> float:
    """1. Messages for a topic that is not there.  2. All others continue.  3. It is made, and gets them."""
    name = f"late-{this.number}"
    with system.also_sending_to(name):  # 1
        _others_go_on(system, name)  # 2
        time.sleep(LATE_SECONDS)
    _create(system, NewTopic(name, 1, 1))  # 3
    return _all_arrive(system, name, 1)


def grow_topic(system: System, this: Round) -> float:
    """Likewise with a partition that is not there."""
    name = f"grown-{this.number}"
    _create(system, NewTopic(name, 1, 1))
    with system.also_sending_to(name, partition=1):
        _others_go_on(system, name)
        time.sleep(LATE_SECONDS)
    admin = _admin(system)
    admin.create_partitions([NewPartitions(name, 2)])[name].result(_ASK_SECONDS)
    return _all_arrive(system, name, 2)


def take_leader_away(system: System, this: Round) -> float:
    """1. A topic on a broker of its own.  2. That is stopped, for a minute.  3. Others continue.  4. It comes back."""
    name = f"faraway-{this.number}"
    with LocalKafka(joins=system.ground.broker, heap_megabytes=256) as broker:  # 1
        _create(system, NewTopic(name, 1, replica_assignment=[[2]]))
        broker.stop()  # 2
        stopped = time.monotonic()
        with system.also_sending_to(name):
            _others_go_on(system, name)  # 3
            time.sleep(max(0.0, stopped + LEADERLESS_SECONDS - time.monotonic()))
        broker.start()  # 4
        try:
            since = _all_arrive(system, name, 1)
        finally:  # its broker goes with this round
            system.consuming.forget(name)
        admin = _admin(system)
        admin.delete_topics([name])[name].result(_ASK_SECONDS)
    return since


def take_broker_away(system: System, _this: Round) -> float:
    """Job and check service wait for it; one that stops may do so only for an orchestrator to start it again."""
    system.ground.broker.stop()
    system.supervise_for(AWAY_SECONDS)
    system.ground.broker.start()
    since = time.time()
    system.recoveries.append(system.wait_for_delivery(since))
    if system.given_up:
        raise NotRecoveredError(f"With the broker away for {AWAY_SECONDS:.0f} s: {' | '.join(system.given_up)}.")
    return since


def step_clock_ahead(system: System, _this: Round) -> float:
    """By four days, more than the age limit: the job stops before it parks anything, and continues right afterwards."""
    return _stopped_by_clock(system, _FOUR_DAYS)


def step_clock_back_an_hour(system: System, _this: Round) -> float:
    """More than the clock tolerance: the job stops, and continues when the clock is right again."""
    return _stopped_by_clock(system, -_HOUR)


def _stopped_by_clock(system: System, seconds: int) -> float:
    # The round before may have ended by what another task had written. For an executor that has just died Spark waits
    # by the wall clock: set back, it begins no batch until that has caught up, and the job looks at it with each batch.
    system.wait_for_delivery(time.time())
    job = system.job
    system.ground.clock.set(seconds)
    if job.wait(GIVE_UP_SECONDS) is None:
        raise NotRecoveredError(f"The clock was set {seconds} s from the real one, and the job did not stop.")
    system.note_stop(job)
    system.ground.clock.set(0)
    since = time.time()
    system.restart_job()
    return since


def start_second_job(system: System, _this: Round) -> float:
    """Another name, another checkpoint, the same topics: it must not start, and the first must not notice."""
    folder = system.ground.folder
    other = {"CHECKBACK_JOB__NAME": "another", "CHECKBACK_JOB__CHECKPOINT": str(folder / "another-checkpoint")}
    first = system.job
    second = JobProcess(["torture.job", str(folder)], system.job_environment | other, folder / "another.log")
    try:
        if second.wait(GIVE_UP_SECONDS) is None:
            raise NotRecoveredError("A second job of another name runs on the same topics.")
        if second.exit_status == 0 or first.exit_status is not None:
            raise NotRecoveredError(f"The second job ended with {second.exit_status}, the first: {first.exit_status}.")
        system.note_stop(second, "the second job")
    finally:
        second.kill()
    return time.time()


def _others_go_on(system: System, held: str) -> None:
    since = time.time()
    system.recoveries.append(system.wait_for_delivery(since))
    system.wait_until(lambda: system.sent_to(held) >= _HELD_AT_LEAST, _ARRIVE_SECONDS, f"nothing was sent to {held}")
    system.recoveries.append(system.wait_for_delivery(time.time()))


def _all_arrive(system: System, name: str, partitions: int) -> float:
    since = time.time()
    system.consuming.also(name, partitions)
    system.wait_until(lambda: not system.missing_of(name), _ARRIVE_SECONDS, f"{name} did not get what was held")
    return since


def _create(system: System, topic: NewTopic) -> None:
    admin = _admin(system)  # kept: what is asked of one that is gone is never answered
    admin.create_topics([topic])[topic.topic].result(_ASK_SECONDS)


def _admin(system: System) -> AdminClient:
    return AdminClient({"bootstrap.servers": system.ground.broker.bootstrap_servers, "log_level": 0})
