"""What brokers say of topics now: how many partitions there are, and which of them take nothing at the moment."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from time import monotonic
from typing import Any, NamedTuple

from checkback.kafka.librdkafka import make_client
from checkback.kafka.librdkafka.errors import NO_TOPIC, error_code, result_of
from checkback.kafka.librdkafka.library import (
    AdminClient,
    ConfigResource,
    KafkaError,
    KafkaException,
    ResourceType,
    TopicCollection,
)
from checkback.kafka.librdkafka.topics import of_controller
from streaming.brokers.retrying import retrying, retrying_until

NO_SUCH_TOPIC = "there is no such topic"
_CALL_SECONDS = 5.0
_PATIENT_SECONDS = 60.0
_STAYS_SECONDS = 5.0
"""A partition without a leader for less than this is failing over."""
_WELL_SECONDS = 10.0
"""So long a topic that is well is not asked about again."""
_CONFIGURED_SECONDS = 60.0
_TIMED_OUT_SECONDS = 60.0
_LOST_SECONDS = 2.5
"""A topic that was there is lost when it has been missing for so long."""
_SINGLY = 20
"""So many topics at most are described with one request each, which any broker answers."""
_TOGETHER = 1_000
"""So many topics at most are described with one request: 250 KB of the longest names."""


@dataclass(frozen=True)
class Standing:
    """What is known of a topic."""

    partitions: int
    """0 when it takes nothing at all."""
    refusal: str = ""
    """Why it takes nothing at all; empty when it does."""
    away: Mapping[int, str] = field(default_factory=dict)
    """Partitions that take nothing, with the reason: such as have stayed so for some seconds."""


class Described(NamedTuple):
    """What a broker answers about one topic; ``error`` is None when it knows it."""

    error: KafkaError | None
    replicas: Mapping[int, tuple[int, int] | None]
    """Partition to number of replicas in sync, and of all; None when it has no leader."""


class Brokers:
    """Asks brokers, on connections that are kept. Any broker can answer a request for one topic.

    (What else an admin client asks goes to the broker that was the controller when it last heard, and waits for that
    one, be it dead; unless it is told to ask another.)
    """

    def __init__(self, client: Mapping[str, Any]) -> None:
        self._admin = make_client(AdminClient, dict(client))
        self._alive = -1
        """The broker that answered last."""

    def describe(self, topic: str) -> Described:
        """One topic.

        Raises:
            KafkaException: no broker answers.
        """
        answer = self._admin.list_topics(topic, timeout=_CALL_SECONDS)
        self._alive = answer.orig_broker_id
        described = answer.topics[topic]
        replicas = {
            number: None if one.leader < 0 else (len(one.isrs), len(one.replicas))
            for number, one in sorted(described.partitions.items())
        }
        return Described(described.error, replicas)

    def describe_several(self, topics: Sequence[str]) -> dict[str, Described]:
        """These topics, with one request.

        Raises:
            KafkaException: the controller does not answer.
        """
        return of_controller(self._admin, partial(self._several, list(topics)))

    def _several(self, topics: list[str]) -> dict[str, Described]:
        answers = self._admin.describe_topics(TopicCollection(topics), request_timeout=_CALL_SECONDS)
        described: dict[str, Described] = {}
        for name, answer in answers.items():
            try:
                places = result_of(answer).partitions
            except KafkaException as error:
                # librdkafka's own errors are negative: they are about the request, and not about this topic
                if error_code(error) < 0 and error_code(error) not in NO_TOPIC:
                    raise
                described[name] = Described(error.args[0], {})
            else:
                replicas = {one.id: (len(one.isr), len(one.replicas)) if one.leader else None for one in places}
                described[name] = Described(None, dict(sorted(replicas.items())))
        return described

    def wanted_replicas(self, topics: Iterable[str]) -> dict[str, int]:
        """``min.insync.replicas`` of each topic whose configuration the job may see."""
        resources = [ConfigResource(ResourceType.TOPIC, name) for name in topics]
        least: dict[str, int] = {}
        whom = {"broker": self._alive} if self._alive >= 0 else {}
        for resource, answer in self._admin.describe_configs(resources, request_timeout=_CALL_SECONDS, **whom).items():
            try:
                least[resource.name] = int(result_of(answer)["min.insync.replicas"].value)
            except (KafkaException, KeyError, TypeError, ValueError):
                continue
        return least


class TopicDirectory:
    """What a worker process knows of topics: a batch asks about its own, and of those only what may have changed."""

    def __init__(self, brokers: Brokers, clock: Callable[[], float] = monotonic) -> None:
        self._brokers = brokers
        self._clock = clock
        self._well: dict[str, tuple[float, Standing]] = {}
        self._since: defaultdict[str, dict[int, float]] = defaultdict(dict)
        """Since when partitions of a topic have been seen to take nothing, each time that it was looked at."""
        self._gone: dict[str, float] = {}
        """Since when a topic that was there has been missing. Names that never existed leave nothing behind."""
        self._wanted: dict[str, tuple[float, int]] = {}
        self._timed_out: dict[tuple[str, int], float] = {}

    def look(
        self, topics: Iterable[str], *, again: bool = False, seconds: float = _PATIENT_SECONDS
    ) -> dict[str, Standing]:
        """How these topics stand; ``again``: also those that were well a moment ago.

        Raises:
            KafkaException: no broker answers within ``seconds``.
        """
        now = self._clock()
        standings: dict[str, Standing] = {}
        unknown: list[str] = []
        for topic in dict.fromkeys(topics):
            asked_at, standing = self._well.get(topic, (-_WELL_SECONDS, None))
            if standing is None or again or now - asked_at >= _WELL_SECONDS:
                unknown.append(topic)
            else:
                standings[topic] = standing
        for topic, described in self._described(unknown, retrying(seconds)).items():
            standings[topic] = self._noted(topic, described, now)
        return standings

    def lost(self, known: Mapping[str, Standing]) -> dict[str, str]:
        """Topics that take less than is ``known`` of them, with the reason; for when messages wait to be taken.

        Raises:
            KafkaException: no broker answers, which is not a topic's fault.
        """
        now = self._clock()
        sent = [topic for topic, standing in known.items() if not standing.refusal]  # the others wait for nothing
        self._ask_for_wanted(sent, now)
        lost: dict[str, str] = {}
        for topic, standing in self.look(sent, again=True, seconds=0).items():
            if standing.refusal and now - self._gone.setdefault(topic, now) >= _LOST_SECONDS:
                lost[topic] = standing.refusal
            elif standing.away.keys() - known[topic].away.keys():
                lost[topic] = next(iter(standing.away.values()))
        return lost

    def doubt(self, topics: Iterable[str]) -> None:
        """Ask about these the next time, whatever was believed: one of them did not take a record."""
        for topic in topics:
            self._well.pop(topic, None)

    def timed_out(self, topic: str, partition: int) -> None:
        """Remember that a partition did not take a message in time, though its brokers say nothing against it."""
        self._timed_out[topic, partition] = self._clock() + _TIMED_OUT_SECONDS
        self._well.pop(topic, None)

    def _described(self, topics: Sequence[str], ask: Callable[..., Any]) -> dict[str, Described]:
        if len(topics) <= _SINGLY:
            return {topic: ask(self._brokers.describe, topic) for topic in topics}
        described: dict[str, Described] = {}
        for start in range(0, len(topics), _TOGETHER):
            described |= ask(self._brokers.describe_several, topics[start : start + _TOGETHER])
        return described

    def _noted(self, topic: str, described: Described, now: float) -> Standing:
        standing = self._judged(topic, described, now)
        if standing.refusal or self._since.get(topic):
            self._well.pop(topic, None)
        else:
            self._well[topic] = (now, standing)
        return standing

    def _ask_for_wanted(self, topics: Iterable[str], now: float) -> None:
        over = [topic for topic in topics if now >= self._wanted.get(topic, (now, 0))[0]]
        if over:
            until = now + _CONFIGURED_SECONDS
            self._wanted.update({topic: (until, least) for topic, least in self._brokers.wanted_replicas(over).items()})

    def _judged(self, topic: str, described: Described, now: float) -> Standing:
        error = described.error
        if error is not None or not described.replicas:
            if error is None or error.code() in NO_TOPIC:
                return Standing(0, NO_SUCH_TOPIC)
            if error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
                return Standing(0, "this job may not see that topic: grant its user Write on it")
            return Standing(0, f"Kafka says: {error.str()}")
        self._gone.pop(topic, None)
        wanted = self._wanted.get(topic, (0.0, 0))[1]
        if any(one is not None and one[0] < min(wanted, one[1]) for one in described.replicas.values()):
            self._ask_for_wanted([topic], now)
            wanted = self._wanted[topic][1]
        away: dict[int, str] = {}
        for number, replicas in described.replicas.items():
            why = self._trouble(topic, number, replicas, wanted, now)
            if why and now - self._since[topic][number] >= _STAYS_SECONDS:
                away[number] = why
        return Standing(len(described.replicas), "", away)

    def _trouble(self, topic: str, number: int, replicas: tuple[int, int] | None, wanted: int, now: float) -> str:
        since = self._since[topic]
        if replicas is None:
            since.setdefault(number, now)
            return "that partition has no leader"
        if replicas[0] < min(wanted, replicas[1]):  # Kafka does not want more than there are
            since.setdefault(number, now)
            return f"{replicas[0]} of its replicas in sync, min.insync.replicas is {wanted}"
        if self._timed_out.get((topic, number), now) > now:
            since[number] = now - _STAYS_SECONDS
            return "that partition did not take a message in time"
        since.pop(number, None)
        return ""


class Known:
    """What one pass over a batch knows of its topics; it asks about each once."""

    def __init__(self, directory: TopicDirectory) -> None:
        self._directory = directory
        self._anew: set[str] = set()
        self.standings: dict[str, Standing] = {}

    def learn(self, topics: Iterable[str]) -> None:
        """Ask about those that are not known yet.

        Raises:
            KafkaException: no broker answers.
        """
        new = [topic for topic in topics if topic not in self.standings]
        if new:
            self.standings.update(self._directory.look(new))

    def again(self, topic: str) -> Standing:
        """Ask about one that is known, once, since what is known may be a few seconds old."""
        if topic not in self._anew:
            self._anew.add(topic)
            self.standings.update(self._directory.look([topic], again=True))
        return self.standings[topic]

    def patiently(self, topic: str, seconds: float = 30.0) -> Standing:
        """Ask about one until it takes something; as it stands after so long if it never does."""
        ask = retrying_until(lambda standing: bool(standing.partitions), seconds)
        standing = ask(lambda: self._directory.look([topic], again=True)[topic])
        self.standings[topic] = standing
        return standing

    def lost(self) -> dict[str, str]:
        """See :meth:`TopicDirectory.lost`."""
        return self._directory.lost(self.standings)
