"""Notices partitions of the topics that the job reads that somebody's open Kafka transaction holds back.

The job reads committed. An open transaction on a partition hides what comes behind it, everybody's, until it ends or
Kafka aborts it (the writer's ``transaction.timeout.ms``, up to 15 min by the brokers' default). Nothing is lost then,
and nothing else would say why messages are late. So the ends of the partitions are compared every few seconds, in a
thread of its own; whatever goes wrong here never stops the job.
"""

import contextlib
import logging
import math
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, NamedTuple

from checkback.kafka import kafka_python, librdkafka
from checkback.kafka.kafka_python.library import KafkaAdminClient
from checkback.kafka.kafka_python.library import TopicPartition as Partition
from checkback.kafka.librdkafka.errors import result_of
from checkback.kafka.librdkafka.library import (
    AdminClient,
    IsolationLevel,
    KafkaException,
    OffsetSpec,
    TopicCollection,
    TopicPartition,
)
from checkback.kafka.librdkafka.topics import of_controller

_LOGGER = logging.getLogger(__name__)
_LOOK_SECONDS = 5.0
_FRESH_SECONDS = 0.5
_ASK_SECONDS = 0.5
_WARN_SECONDS = 10.0
_AGAIN_SECONDS = 60.0
_CALL_SECONDS = 5.0
_STOP_SECONDS = 2.0


class PartitionId(NamedTuple):
    """One partition."""

    topic: str
    partition: int


class PartitionEnds(NamedTuple):
    """Where a partition ends for those who read committed, and for those who do not."""

    stable: int
    end: int
    first: int = 0
    """Where it begins."""


class HeldPartition(NamedTuple):
    """A partition to warn of."""

    place: PartitionId
    offset: int
    """Where the open transaction begins."""
    seconds: float


class HeldBack:
    """What looks at partitions tell: which are held back, for how long, and of which to warn now.

    A partition is held back while its stable end stays where it was at an earlier look, and is not its end. Where it
    moves, transactions are short. Times are seconds of a clock that only goes on.
    """

    def __init__(self) -> None:
        self._since: dict[PartitionId, tuple[int, float]] = {}
        self._warn_at: dict[PartitionId, float] = {}

    def look(self, found: Mapping[PartitionId, PartitionEnds], now: float) -> dict[PartitionId, float]:
        """Take in a look; for how many seconds each of these partitions has been held back, 0 when it is not."""
        for place, ends in found.items():
            if ends.stable >= ends.end:
                self._forget(place)
            elif self._since.get(place, (-1, now))[0] != ends.stable:
                self._since[place] = (ends.stable, now)
                self._warn_at[place] = now + _WARN_SECONDS
        for place in self._since.keys() - found.keys():  # the topic is gone, or Kafka did not say
            self._forget(place)
        return {place: now - self._since[place][1] if place in self._since else 0.0 for place in found}

    def warnings(self, now: float) -> list[HeldPartition]:
        """Those to warn of now: each after 10 s, and then once a minute."""
        due = [place for place, at in self._warn_at.items() if now >= at]
        for place in due:
            self._warn_at[place] = now + _AGAIN_SECONDS
        return [HeldPartition(place, self._since[place][0], now - self._since[place][1]) for place in due]

    def _forget(self, place: PartitionId) -> None:
        self._since.pop(place, None)
        self._warn_at.pop(place, None)


class HeldBackWatch:
    """Looks every 5 s, from :meth:`start` to :meth:`stop`, and for :meth:`ask`.

    ``client`` are settings of a librdkafka client, ``writer`` names who holds a partition back as far as Kafka tells,
    and ``observe`` is told of each partition how many seconds it has been held back; ``looked`` of each look at all,
    and ``named`` who holds one back, when that has been asked. ``more`` does what else takes a client and some time.
    """

    def __init__(
        self,
        client: Mapping[str, Any],
        topics: Iterable[str],
        writer: Callable[[HeldPartition], str],
        observe: Callable[[PartitionId, float], None],
        looked: Callable[[Mapping[PartitionId, PartitionEnds]], None] = lambda _found: None,
        named: Callable[[PartitionId, str], None] = lambda _place, _writer: None,
        more: Callable[[AdminClient], None] = lambda _admin: None,
    ) -> None:
        self._client = dict(client)
        self._topics = list(topics)
        self._writer = writer
        self._observe = observe
        self._looked = looked
        self._named = named
        self._more = more
        self._held = HeldBack()
        self._stopping, self._wake = threading.Event(), threading.Event()
        self._known = threading.Condition()
        self._known_from = self._unanswered_from = self._held_from = self._more_from = -math.inf
        self._thread = threading.Thread(target=self._watch, name="checkback-held-back", daemon=True)

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def ask(self) -> None:
        """Have the ends looked at now, unless they just were; returns when they were, in half a second at most.

        While Kafka does not answer, nobody waits for it more often than every 5 s.
        """
        asked = time.monotonic()
        with self._known:
            if not self._thread.is_alive() or asked - self._unanswered_from < _LOOK_SECONDS:
                return
            if self._known_from >= asked - _FRESH_SECONDS:
                return
            self._wake.set()
            if not self._known.wait_for(lambda: self._known_from >= asked - _FRESH_SECONDS, _ASK_SECONDS):
                self._unanswered_from = asked

    def stop(self) -> None:
        """Look no more. A look that is under way may outlive this: it changes nothing."""
        self._stopping.set()
        self._wake.set()
        if self._thread.ident is not None:
            self._thread.join(_STOP_SECONDS)

    def _watch(self) -> None:
        admin: AdminClient | None = None
        while not self._stopping.is_set():
            try:
                admin = admin or librdkafka.make_client(AdminClient, self._client)
                self._look_once(admin)
            except Exception as error:  # noqa: BLE001  (whatever it is, messages are worth more than this look)
                _LOGGER.debug("Whether partitions are held back cannot be told now: %r", error)
            self._wake.wait(_LOOK_SECONDS)
            self._wake.clear()

    def _look_once(self, admin: AdminClient) -> None:
        began = time.monotonic()
        found = read_ends(admin, self._topics)
        self._looked(found)
        with self._known:
            self._known_from, self._unanswered_from = began, -math.inf
            self._known.notify_all()
        if began - self._held_from >= _LOOK_SECONDS:  # a transaction that is seen twice in a second is a short one
            self._held_from = began
            self.look(found, time.monotonic())
        if began >= self._more_from:
            self._more_from = began + _AGAIN_SECONDS  # after a failure: a group without rights takes 5 s of each try
            self._more(admin)
            self._more_from = began + _LOOK_SECONDS

    def look(self, found: Mapping[PartitionId, PartitionEnds], now: float) -> None:
        """Take in what was found: tell of it, and warn where it is time to."""
        for place, seconds in self._held.look(found, now).items():
            self._observe(place, seconds)
        for held in self._held.warnings(now):
            writer = self._writer(held)
            self._named(held.place, writer.strip(" ()"))
            _LOGGER.warning(
                "partition %d of %s has been held back by an open transaction%s for %.0f s: nothing behind offset %d "
                "is read before that ends. Nobody may write to this topic in a long Kafka transaction: see "
                "docs/stop-messages.md.",
                *(held.place.partition, held.place.topic, writer, held.seconds, held.offset),
            )


def read_ends(admin: AdminClient, topics: Iterable[str]) -> dict[PartitionId, PartitionEnds]:
    """Both ends of each partition of these topics; those whose leader does not answer are left out.

    Raises:
        KafkaException: Kafka does not answer at all.
    """
    places = of_controller(admin, partial(_places, admin, list(topics)))
    # This order: what is written in between looks stable too early, and not held back.
    first = _offsets(admin, places, OffsetSpec.earliest(), IsolationLevel.READ_UNCOMMITTED)  # type: ignore[no-untyped-call]  # confluent-kafka has no types for it
    latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]  # likewise
    ends = _offsets(admin, places, latest, IsolationLevel.READ_UNCOMMITTED)
    stable = _offsets(admin, places, latest, IsolationLevel.READ_COMMITTED)
    known = first.keys() & ends.keys() & stable.keys()
    return {place: PartitionEnds(stable[place], ends[place], first[place]) for place in known}


def _places(admin: AdminClient, topics: list[str]) -> list[PartitionId]:
    asked = admin.describe_topics(TopicCollection(topics), request_timeout=_CALL_SECONDS)
    return [
        PartitionId(name, partition.id) for name, answer in asked.items() for partition in result_of(answer).partitions
    ]


def _offsets(
    admin: AdminClient, places: Iterable[PartitionId], which: Any, isolation: IsolationLevel
) -> dict[PartitionId, int]:
    latest = {TopicPartition(*place): which for place in places}
    found = {}
    asked = admin.list_offsets(latest, isolation_level=isolation, request_timeout=_CALL_SECONDS)
    for place, answer in asked.items():
        with contextlib.suppress(KafkaException):
            found[PartitionId(place.topic, place.partition)] = result_of(answer).offset
    return found


def named_writer(bootstrap_servers: str, options: Mapping[str, Any]) -> Callable[[HeldPartition], str]:
    """Asks Kafka whose transaction it is; "" where it does not say, or does not allow the job to ask."""
    servers = {"bootstrap_servers": bootstrap_servers}

    def writer(held: HeldPartition) -> str:
        try:
            with contextlib.closing(
                kafka_python.make_client(KafkaAdminClient, servers, options, kafka_python.SHARED)
            ) as admin:
                return _named(admin, held)
        except Exception as error:  # noqa: BLE001  (the warning is worth more than the name in it)
            _LOGGER.debug("Whose transaction holds back %s cannot be told: %r", held.place, error)
            return ""

    return writer


def _named(admin: KafkaAdminClient, held: HeldPartition) -> str:
    place = Partition(*held.place)
    for producer in admin.describe_producers([place])[place].active_producers:
        if producer.current_transaction_start_offset != held.offset:
            continue
        listed = admin.list_transactions(producer_id_filters=[producer.producer_id]).values()
        names = [repr(one.transactional_id) for ones in listed for one in ones]
        known = f", transactional id {', '.join(names)}" if names else ""
        return f" (producer {producer.producer_id}{known})"
    return ""
