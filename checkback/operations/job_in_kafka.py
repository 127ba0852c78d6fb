"""What Kafka alone says of the job on some topics: who has claimed them, and how far behind it is."""

from collections.abc import Iterable, Mapping
from time import monotonic, sleep
from typing import Any, NamedTuple, Self

from checkback.exceptions import ConfigurationError
from checkback.kafka.kafka_python.library import (
    AuthorizationError,
    GroupAuthorizationFailedError,
    KafkaError,
    OffsetSpec,
    TopicAuthorizationFailedError,
    TopicPartition,
)
from checkback.kafka.reaching import no_kafka
from checkback.operations.topics import admin_client
from checkback.wire.groups import GROUPS, claim_group, display_group
from checkback.wire.json_reading import read_object
from checkback.wire.protocol import Topics
from checkback.wire.rights import Operation, ResourceKind, Right, not_allowed, read

_PATIENT_SECONDS = 5.0
_PAUSE_SECONDS = 0.1


class ClaimRecord(NamedTuple):
    """The run of a job that reads the topics, or that did last: nothing takes a claim back when a job ends."""

    run: str
    host: str
    process: int
    since: str
    """As people read it."""
    query_id: str = ""
    """Names its checkpoint."""
    job: str = ""
    """The setting ``job.name``."""
    page: str = ""
    """Where it serves its status page; empty: it does not."""
    half_topic_id: str = ""
    """Kafka's own id of what it reads; empty: not known."""

    def __str__(self) -> str:
        name = f"job '{self.job}', " if self.job else ""
        return f"{name}process {self.process} on {self.host}, since {self.since}"


def claim_in(metadata: str | None) -> ClaimRecord | None:
    """The claim in an offset's metadata; None when that is something else."""
    try:
        claim = read_object((metadata or "").rstrip("\0"))  # librdkafka ends it so
        return ClaimRecord(**{name: kind(claim[name]) for name, kind in ClaimRecord.__annotations__.items()})
    except (ValueError, KeyError, TypeError, OverflowError):
        return None


class JobInKafka:
    """Asks brokers; use it as a context manager.

    Raises:
        KafkaUnreachableError: no Kafka answers, then or later.
        NotAllowedError: Kafka does not let this user see a topic or a group.
    """

    def __init__(self, bootstrap_servers: str, topics: Topics, options: Mapping[str, Any] | None = None) -> None:
        self._topics = topics
        self._servers = bootstrap_servers
        self._admin = admin_client(bootstrap_servers, options)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._admin.close()

    def claim(self) -> ClaimRecord | None:
        """Who has the topics, or had them last; None when nobody has since they were made."""
        place = TopicPartition(self._topics.progress, 0)
        found = self._committed(claim_group(self._topics), [place]).get(place)
        return None if found is None or found.offset < 0 else claim_in(found.metadata)

    def behind(self) -> int | None:
        """How many records of half and op topic the job has not read yet, at most; None when it does not say.

        It says so a second after it has read them: of one that was killed then, nobody learns it any more.
        """
        names = (self._topics.half, self._topics.op)
        try:
            places = [
                TopicPartition(topic["name"], one["partition_index"])
                for topic in self._described(*names)
                for one in topic["partitions"]
            ]
            reached = self.read_to(places) if places else {}
            if not reached:
                return None
            ends = self._admin.list_partition_offsets(dict.fromkeys(places, OffsetSpec.LATEST))
            first = self._admin.list_partition_offsets(dict.fromkeys(places, OffsetSpec.EARLIEST))
        except KafkaError as error:
            raise self._away(error) from error
        begun = {place: max(reached.get(place, 0), first[place].offset) for place in places}
        return sum(max(0, int(ends[place].offset) - int(begun[place])) for place in places)

    def read_to(self, places: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """How far the job says that it has read these partitions; those of which it says nothing are not there."""
        reached = self._committed(display_group(self._topics), list(places))
        return {place: one.offset for place, one in reached.items() if one.offset >= 0}

    def _described(self, *topics: str) -> list[dict[str, Any]]:
        try:
            found: list[dict[str, Any]] = self._admin.describe_topics(list(topics))
        except KafkaError as error:
            raise self._away(error) from error
        for one in found:
            if one["error_code"] == TopicAuthorizationFailedError.errno:
                raise self._away(TopicAuthorizationFailedError(one["name"]))
        return found

    def _committed(self, group: str, places: list[TopicPartition]) -> dict[TopicPartition, Any]:
        until = monotonic() + _PATIENT_SECONDS
        while True:
            try:
                return dict(self._admin.list_group_offsets({group: places}).get(group, {}))
            except TopicAuthorizationFailedError as error:  # kafka-python does not say of which
                raise self._away(TopicAuthorizationFailedError({one.topic for one in places})) from error
            except GroupAuthorizationFailedError as error:
                raise self._away(GroupAuthorizationFailedError(group)) from error
            except KafkaError as error:
                # a cluster's first group waits until Kafka has made the topic of all groups' offsets
                if not error.retriable or monotonic() > until:
                    raise self._away(error) from error
                sleep(_PAUSE_SECONDS)

    def _away(self, error: KafkaError) -> ConfigurationError:
        if isinstance(error, AuthorizationError):
            topics, groups = self._topics, ((GROUPS, True), (display_group(self._topics), False))
            rights = [read(name, "") for name in (topics.half, topics.op, topics.progress)]
            rights += [
                Right(Operation.DESCRIBE, ResourceKind.GROUP, name, prefixed=prefixed) for name, prefixed in groups
            ]
            return not_allowed("this command", error, rights)
        return no_kafka(self._servers, error, "kafka.bootstrap_servers")
