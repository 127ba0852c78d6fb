"""What Kafka says of Checkback's own topics, what is wrong with them, and what its user may do with them."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from checkback.kafka.kafka_python.library import (
    ConfigResource,
    ConfigResourceType,
    GroupAuthorizationFailedError,
    KafkaAdminClient,
    KafkaError,
    OffsetSpec,
    TopicAuthorizationFailedError,
    TopicPartition,
    UnknownTopicOrPartitionError,
    for_code,
)
from checkback.operations.retention import BYTES, TIME, Times
from checkback.operations.times import said_duration
from checkback.operations.topics import IN_SYNC, RULED, broken_rules, few_ops, rules_of
from checkback.wire.limits import MOST_RECORD_BYTES
from checkback.wire.protocol import Topics
from checkback.wire.rights import Operation, ResourceKind, Right, read

_CLEANUP = "cleanup.policy"
_LARGEST = "max.message.bytes"
_NO_SUCH = UnknownTopicOrPartitionError.__name__
_ASKED = (TIME, BYTES, _LARGEST, IN_SYNC, *RULED)
_NOTHING = frozenset[str]()


class TopicFacts(NamedTuple):
    """A topic, as Kafka describes it. What it does not say is absent from ``configuration``."""

    name: str
    partitions: int
    """0: there is no such topic."""
    replication: int = 0
    """Replicas of the partition that has the fewest."""
    leaderless: tuple[int, ...] = ()
    """Partitions without a leader."""
    short: tuple[int, ...] = ()
    """Partitions with fewer replicas in sync than they have replicas."""
    records: int | None = None
    """At most so many: offsets from the first to the last, some of which are Kafka's own. None: it did not say."""
    configuration: Mapping[str, str] = {}
    operations: frozenset[str] | None = None
    """What whoever asks may do with it, by Kafka's names; None: Kafka does not say."""
    topic_id: str = ""
    error: str = ""
    """Why Kafka tells nothing of it; empty where it is not there, or where it does tell."""

    @property
    def compacted(self) -> bool:
        """Whether Kafka keeps the last record of each key."""
        return "compact" in self.configuration.get(_CLEANUP, "")

    @property
    def kept(self) -> str:
        """For how long, as people read it."""
        if self.configuration.get(_CLEANUP) == "compact":
            return "the last of each key"
        if TIME not in self.configuration:
            return "?"
        kept_ms = int(self.configuration[TIME])
        by_size = int(self.configuration.get(BYTES, "-1"))
        said = "for ever" if kept_ms < 0 else said_duration(kept_ms)
        return said if by_size < 0 else f"{said}, at most {by_size:,} bytes a partition"


class Fault(NamedTuple):
    """Something about a topic that is not as it should be."""

    topic: str
    what: str
    todo: str
    stops: bool
    """Whether the job does not start with it, or loses something; else it is only worth knowing."""


def faults(found: Mapping[str, TopicFacts], topics: Topics, times: Times, state_partitions: int) -> list[Fault]:
    """All that is not as 'checkback topics create' makes it, or that keeps the topics from being written to."""
    missing = [
        Fault(name, "is missing", "run 'checkback topics create'", stops=True)
        for name in topics.all()
        if name not in found or not (found[name].partitions or found[name].error)
    ]
    missing += [
        Fault(one.name, f"may not be looked at ({one.error})", f"grant {read(one.name, '')}", stops=True)
        for one in found.values()
        if one.error
    ]
    there = {name: one for name, one in found.items() if one.partitions}
    counts = [*_counts(there, topics, state_partitions)]
    return [*missing, *counts, *(fault for one in there.values() for fault in _of_one(one, topics, times))]


def facts_of(admin: KafkaAdminClient, names: Iterable[str]) -> dict[str, TopicFacts]:
    """What Kafka says of these topics, by name; those that are not there have no partitions.

    Raises:
        KafkaError: Kafka does not answer.
    """
    wanted = list(names)
    answers = admin.describe_topics(wanted)
    described = {topic["name"]: topic for topic in answers if not topic["error_code"]}
    errors = {topic["name"]: for_code(topic["error_code"]).__name__ for topic in answers if topic["error_code"]}
    asked = [ConfigResource(ConfigResourceType.TOPIC, name, list(_ASKED)) for name in described]
    said = admin.describe_configs(asked, config_filter="all").get("topic", {}) if asked else {}
    records = _records(admin, described)
    return {
        name: _facts(name, described[name], said.get(name, {}), records.get(name))
        if name in described
        else TopicFacts(name, 0, error="" if errors.get(name) == _NO_SUCH else errors.get(name, ""))
        for name in wanted
    }


def _facts(name: str, topic: Any, said: Mapping[str, Any], records: int | None) -> TopicFacts:
    partitions = topic["partitions"]
    operations = topic.get("topic_authorized_operations", topic.get("authorized_operations"))
    return TopicFacts(
        name,
        len(partitions),
        min((len(one["replica_nodes"]) for one in partitions), default=0),
        tuple(one["partition_index"] for one in partitions if one["leader_id"] < 0),
        tuple(one["partition_index"] for one in partitions if len(one["isr_nodes"]) < len(one["replica_nodes"])),
        records,
        {key: str(value["value"]) for key, value in said.items()},
        operations_in(operations),
        str(topic.get("topic_id") or ""),
    )


def _records(admin: KafkaAdminClient, described: Mapping[str, Any]) -> dict[str, int]:
    places = [
        TopicPartition(name, one["partition_index"])
        for name, topic in described.items()
        for one in topic["partitions"]
        if one["leader_id"] >= 0
    ]
    if not places:
        return {}
    first = admin.list_partition_offsets(dict.fromkeys(places, OffsetSpec.EARLIEST))
    ends = admin.list_partition_offsets(dict.fromkeys(places, OffsetSpec.LATEST))
    counts: dict[str, int] = {}
    for place in places:
        counts[place.topic] = counts.get(place.topic, 0) + int(ends[place].offset) - int(first[place].offset)
    return counts


def _counts(there: Mapping[str, TopicFacts], topics: Topics, state_partitions: int) -> Iterable[Fault]:
    create = "run 'checkback topics create'"
    half, op = there.get(topics.half), there.get(topics.op)
    if half and op and half.partitions > op.partitions:
        yield Fault(topics.op, few_ops(topics.half, topics.op, half.partitions, op.partitions), create, stops=True)
    progress = there.get(topics.progress)
    if progress and progress.partitions < state_partitions:
        what = f"has {progress.partitions} partitions, and job.state_partitions is {state_partitions}"
        yield Fault(topics.progress, what, f"add partitions to {topics.progress}", stops=True)


def _of_one(one: TopicFacts, topics: Topics, times: Times) -> Iterable[Fault]:
    create = "run 'checkback topics create'"
    if one.leaderless:
        yield Fault(one.name, f"has no leader for {_named(one.leaderless)}", "bring its brokers back", stops=True)
    elif one.short:
        yield Fault(one.name, f"lacks replicas in sync for {_named(one.short)}", "see to its brokers", stops=False)
    if not one.configuration:
        lacks = Right(Operation.DESCRIBE_CONFIGS, ResourceKind.TOPIC, one.name)
        yield Fault(one.name, "has a configuration that Kafka does not tell", f"grant {lacks}", stops=False)
        return
    rules = rules_of(topics).get(one.name, {})
    for key, value in broken_rules(rules, one.configuration).items():
        if key != _CLEANUP:  # below, in words of its own
            what = f"has {key}={value} instead of {rules[key].value}"
            yield Fault(one.name, what, create, stops=rules[key].loses)
    yield from _kept(one, topics, times)
    in_sync = int(one.configuration.get(IN_SYNC, "1"))
    if in_sync > one.replication:
        todo = f"set it to {one.replication} at most, or add replicas"
        yield Fault(
            one.name, f"has {IN_SYNC}={in_sync} and {one.replication} replicas: it takes nothing", todo, stops=True
        )
    elif in_sync < 2 <= one.replication:
        todo = f"set {IN_SYNC}=2"
        yield Fault(one.name, f"has {IN_SYNC}={in_sync}: what one broker has may be lost with it", todo, stops=False)


def _kept(one: TopicFacts, topics: Topics, times: Times) -> Iterable[Fault]:
    """Compaction, retention and size."""
    create = "run 'checkback topics create'"
    compact = one.name in {topics.status, topics.producers, topics.control}
    if _CLEANUP in broken_rules(rules_of(topics).get(one.name, {}), one.configuration):
        what = "is compacted: what lies under one key is lost"
        if compact:
            what = "is deleted by age" if one.compacted else "is not compacted"
        yield Fault(one.name, what, create, stops=True)
    if compact:
        return
    kept_ms = int(one.configuration.get(TIME, "-1"))
    least_ms, stops = _least_ms(one.name, topics, times)
    if 0 <= kept_ms < least_ms:
        what = f"is kept for {said_duration(kept_ms)}, and is needed for {said_duration(least_ms)}"
        todo = create if one.name in {topics.half, topics.op, topics.later} else f"set {TIME}={least_ms}"
        yield Fault(one.name, what, todo, stops=stops)
    by_size = int(one.configuration.get(BYTES, "-1"))
    if by_size >= 0 and one.name != topics.progress:
        yield Fault(one.name, f"is deleted by size ({BYTES}={by_size})", f"set {BYTES}=-1", stops=False)
    largest = int(one.configuration.get(_LARGEST, str(MOST_RECORD_BYTES)))
    if one.name in {topics.check, topics.parked, topics.rejected} and largest < MOST_RECORD_BYTES:
        what = f"takes {largest:,} bytes a record: of larger messages only the head is written there"
        yield Fault(one.name, what, f"set {_LARGEST}={MOST_RECORD_BYTES}", stops=False)


def _least_ms(name: str, topics: Topics, times: Times) -> tuple[int, bool]:
    """For how long a topic has to be kept, and whether the job refuses less."""
    least = {
        topics.half: (times.half_retention_ms, True),
        topics.op: (times.half_retention_ms, False),
        topics.later: (times.half_retention_ms, False),
        topics.parked: (times.half_retention_ms - times.age_limit, False),
        topics.rejected: (times.age_limit, False),
    }
    return least.get(name, (0, False))


def _named(partitions: tuple[int, ...]) -> str:
    shown = ", ".join(map(str, partitions[:5]))
    return f"partition{'s' if len(partitions) > 1 else ''} {shown}{', ...' if len(partitions) > 5 else ''}"


def allowed_of(
    admin: KafkaAdminClient, topics: Iterable[str], groups: Iterable[str]
) -> dict[tuple[ResourceKind, str], frozenset[str] | None]:
    """Operations by resource, by Kafka's names (``DESCRIBE_CONFIGS``); None: it does not say, or has no such topic.

    Raises:
        KafkaError: Kafka does not answer.
    """
    found = {(ResourceKind.TOPIC, topic["name"]): _of_topic(topic) for topic in admin.describe_topics(list(topics))}
    return found | {(ResourceKind.GROUP, group): _of_group(admin, group) for group in groups}


def _of_topic(topic: Mapping[str, Any]) -> frozenset[str] | None:
    if topic["error_code"] == TopicAuthorizationFailedError.errno:
        return _NOTHING
    return operations_in(topic.get("topic_authorized_operations", topic.get("authorized_operations")))


def _of_group(admin: KafkaAdminClient, group: str) -> frozenset[str] | None:
    try:
        (described,) = admin.describe_groups([group]).values()  # one alone: a hidden one fails all
    except GroupAuthorizationFailedError:
        return _NOTHING
    except KafkaError as error:
        if not error.retriable:
            raise
        return None  # a cluster's first group waits until Kafka has made the topic of all groups' offsets
    if GroupAuthorizationFailedError.__name__ in str(described["error"]):
        return _NOTHING
    return operations_in(described.get("authorized_operations"))


def operations_in(said: object) -> frozenset[str] | None:
    """As kafka-python gives them; None where the broker has said nothing."""
    return frozenset(said) if isinstance(said, list | set | tuple) and said else None
