"""Topics made again with the same name, and logs that have lost their end."""

import random
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import count, product
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined] # not re-exported

from checkback.operations.topics import TopicAdministration
from torture.effects.orders import GROUP, TOPIC
from torture.forgetting.system import ForgettingSystem, Part

_READERS = frozenset({Part.JOB, Part.CONSUMERS})
_TRAFFIC_SECONDS = 4.0
_GAPS = (0.0, 3.0, 12.0)
_ASK_SECONDS = 30.0
_LOOK_SECONDS = 0.2
_CLEAN = ".kafka_cleanshutdown"


class Name(StrEnum):
    """Topics."""

    HALF = "half"
    OP = "op"
    CHECK = "check"
    LATER = "later"
    PROGRESS = "progress"
    PARKED = "parked"
    REJECTED = "rejected"
    STATUS = "status"
    PRODUCERS = "producers"
    CONTROL = "control"
    RETRY = "retry"
    DEAD = "dead letters"
    REAL = "a real topic"


class How(StrEnum):
    """What is done."""

    MADE_AGAIN = "made again"
    CUT = "cut short"


class When(StrEnum):
    """Who notices, and when."""

    RUNNING = "while all run"
    TRAFFIC = "in the midst of traffic"
    DOWN = "while readers are down"
    DOWN_BEYOND = "while readers are down, and has grown beyond where they were"


CARRIES = frozenset({Name.HALF, Name.LATER, Name.RETRY, Name.REAL})
"""What lies there and was not read is gone with the topic."""
_OWNED_BY_GROUP = frozenset({Name.RETRY, Name.DEAD})
_WHEN = {How.MADE_AGAIN: tuple(When), How.CUT: (When.RUNNING, When.DOWN, When.DOWN_BEYOND)}


@dataclass(frozen=True)
class Forgotten:
    """One round."""

    number: int
    topic: Name
    how: How
    when: When
    gap_seconds: float
    """Between deleted and made again."""

    def __str__(self) -> str:
        gap = f", after {self.gap_seconds:.0f} s" if self.how is How.MADE_AGAIN and self.gap_seconds else ""
        return f"{self.topic} {self.how} {self.when}{gap}"


def schedule(seed: int) -> Iterator[Forgotten]:
    """Rounds without end; each deck holds every topic, made again and cut short, at every moment: 91 rounds."""
    chance, numbers = random.Random(seed), count(1)  # noqa: S311  (dice, no secret)
    deck = [(topic, how, when) for topic, how in product(Name, How) for when in _WHEN[how]]
    while True:
        for topic, how, when in chance.sample(deck, len(deck)):
            yield Forgotten(next(numbers), topic, how, when, chance.choice(_GAPS))


def forget(system: ForgettingSystem, this: Forgotten) -> float:
    """Do it to a system at rest, unless the round says otherwise.

    Returns:
        When traffic began that must be delivered (``time.time()``).
    """
    return (_cut if this.how is How.CUT else _make_again)(system, this)


def name_of(system: ForgettingSystem, topic: Name) -> str:
    """As Kafka has it."""
    ours = system.ground.topics
    names = {Name.REAL: TOPIC, Name.RETRY: ours.retry(GROUP), Name.DEAD: ours.dead(GROUP)}
    return names.get(topic) or f"{ours.prefix}{topic}"


def _make_again(system: ForgettingSystem, this: Forgotten) -> float:
    if this.when is When.TRAFFIC:
        system.resume_shop()
        system.supervise_for(_TRAFFIC_SECONDS)
    down = this.when in {When.DOWN, When.DOWN_BEYOND}
    if down:
        system.stop(_READERS)
    with system.dead_letters_kept():
        _replace(system, this)
    if this.topic is Name.REAL:
        system.books.read()
        system.excuse_pulls()
    return _go_on(system, this)


def _replace(system: ForgettingSystem, this: Forgotten) -> None:
    """Delete it, then make it again; what readers are to make themselves when they start is theirs."""
    name = name_of(system, this.topic)
    admin = AdminClient({"bootstrap.servers": system.ground.broker.bootstrap_servers, "log_level": 0})
    partitions = len(admin.list_topics(timeout=_ASK_SECONDS).topics[name].partitions)
    admin.delete_topics([name])[name].result(_ASK_SECONDS)
    system.wait_until(lambda: _is_gone(admin, name), _ASK_SECONDS, f"{name} was not deleted")
    if this.when is When.TRAFFIC and this.topic in CARRIES:
        system.excuse_open_orders()
    system.supervise_for(this.gap_seconds)
    if this.topic not in {*_OWNED_BY_GROUP, Name.REAL}:
        system.ground.create_topics()
    elif this.topic is Name.REAL:
        with TopicAdministration(system.ground.broker.bootstrap_servers) as administration:
            administration.create_one(name, partitions)
    elif Part.CONSUMERS not in system.down:
        topic = NewTopic(name, partitions, config={"retention.ms": "-1"})
        _make(admin, topic)


def _make(admin: AdminClient, topic: NewTopic) -> None:
    try:
        admin.create_topics([topic])[topic.topic].result(_ASK_SECONDS)
    except KafkaException as error:
        if error.args[0].name() != "TOPIC_ALREADY_EXISTS":  # a consumer has made it
            raise


def _is_gone(admin: AdminClient, name: str) -> bool:
    return name not in admin.list_topics(timeout=_ASK_SECONDS).topics


def _cut(system: ForgettingSystem, this: Forgotten) -> float:
    """1. Its log is copied.  2. Traffic, to its end.  3. The broker dies, and comes back with the log as it was.

    Unlike a crash this cuts one topic only, and at a moment at which everything had been read.
    """
    name, broker = name_of(system, this.topic), system.ground.broker
    logs, copies = system.ground.folder / "kafka" / "log", system.ground.folder / "copies"
    broker.stop()  # 1
    shutil.rmtree(copies, ignore_errors=True)
    for log in _logs_of(logs, name):
        shutil.copytree(log, copies / log.name)
    broker.start()
    before = system.resume_shop()  # 2
    system.wait_for_effects(before)
    system.rest()
    if this.when is not When.RUNNING:
        system.stop(_READERS)
    with system.dead_letters_kept():
        broker.kill()  # 3
        for log in _logs_of(logs, name):
            shutil.rmtree(log)
            if (copies / log.name).exists():
                shutil.copytree(copies / log.name, log)
        (logs / _CLEAN).unlink(missing_ok=True)
        system.cut_ms = time.time_ns() // 1_000_000
        broker.start()
    if this.topic is Name.REAL:
        system.excuse_pulls()
    return _go_on(system, this)


def _logs_of(logs: Path, topic: str) -> list[Path]:
    return [log for log in logs.glob(f"{topic}-*") if log.name.removeprefix(f"{topic}-").isdigit()]


def _go_on(system: ForgettingSystem, this: Forgotten) -> float:
    since = system.resume_shop()
    if system.down:
        time.sleep(_TRAFFIC_SECONDS * (5 if this.when is When.DOWN_BEYOND else 0.25))
    system.bring_back()
    return since
