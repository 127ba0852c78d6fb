"""The consumer groups that read what Checkback delivers, as the brokers know them, with kafka-python."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from time import monotonic
from typing import Any, NamedTuple

from checkback.consumer.listener import TopicPartition
from checkback.consumer.offsets.metadata import Stored, decode
from checkback.consumer.resetting.group_offsets import GroupClients, answered, stored_in
from checkback.kafka.kafka_python.library import TopicAuthorizationFailedError
from checkback.kafka.kafka_python.library import TopicPartition as KafkaTopicPartition
from checkback.kafka.kafka_python.polling import poll
from checkback.wire.protocol import ID, RESERVED_PREFIX

_OF_CONSUMERS = frozenset({"consumer", ""})
"""Kafka's protocol types; the second is of groups that have offsets and never had members."""
_NOBODY = frozenset({"Empty", "Dead"})
_LOOKED_AT = 20
"""Offsets at the end of a partition; transaction ends and aborted records are among them."""
_POLL_MS = 200


class KnownGroup(NamedTuple):
    """A consumer group."""

    name: str
    members: int | None
    """None: it uses Kafka's newer protocol, of which this client cannot ask."""
    topics: frozenset[str]
    """That its members want, or of which it has stored offsets; some may be gone."""
    stored: Mapping[TopicPartition, int]
    skipped: Mapping[str, int]
    """By topic: offsets that its consumers have gone past without handling what was there."""


class AllGroups(GroupClients):
    """Asks the brokers about many groups with few questions; use it as a context manager."""

    def topics(self) -> frozenset[str]:
        """The names of all topics."""
        return frozenset(answered(self.consumer.topics))

    def known(self, wanted: Callable[[str], bool]) -> list[KnownGroup]:
        """The groups with wanted names, by name."""
        listed = {
            one["group_id"]: one
            for one in answered(self.admin.list_groups)
            if one["protocol_type"] in _OF_CONSUMERS and wanted(one["group_id"])
        }
        if not listed:
            return []
        names = sorted(listed)
        described = answered(lambda: self.admin.describe_groups(names))
        offsets = answered(lambda: self.admin.list_group_offsets(dict.fromkeys(names)))
        return [_known(listed[name], described[name], offsets[name]) for name in names]

    def ends(self, topics: Collection[str]) -> dict[TopicPartition, int]:
        """Where each partition of topics ends for ``read_committed`` consumers; none of topics that are not there."""
        there = sorted(self.topics() & set(topics))
        partitions = [
            KafkaTopicPartition(name, one) for name in there for one in self.consumer.partitions_for_topic(name)
        ]
        found = answered(lambda: self.consumer.end_offsets(partitions)) if partitions else {}
        return {TopicPartition(*one): end for one, end in found.items()}

    def delivered_to(self, ends: Mapping[TopicPartition, int], seconds: float) -> tuple[frozenset[str], frozenset[str]]:
        """The topics of these partitions to which Checkback delivers; and those that could not be looked at.

        Kafka keeps no list of them. The last records of each partition are read: one that was delivered has ``cb-id``
        and no other header of ours. A topic into which others write much more than Checkback may be missed.
        """
        found: set[str] = set()
        refused: set[str] = set()
        waiting = self._seek_near(ends)
        until = monotonic() + seconds
        while waiting and monotonic() < until:
            try:
                for partition, records in poll(self.consumer, _POLL_MS).items():
                    if any(was_delivered(record.headers) for record in records):
                        found.add(partition.topic)
            except TopicAuthorizationFailedError as error:
                refused |= set(error.args[0])
            done = [one for one in waiting if self._seen(one, ends, found | refused)]
            waiting -= set(done)
            if refused & {one.topic for one in self.consumer.assignment()}:
                self._assign_again(waiting)
            else:
                self.consumer.pause(*done)
        return frozenset(found), frozenset(refused | ({one.topic for one in waiting} - found))

    def _seek_near(self, ends: Mapping[TopicPartition, int]) -> set[KafkaTopicPartition]:
        """Go to a little before the ends; the partitions that have anything."""
        partitions = [KafkaTopicPartition(*one) for one in ends]
        first = answered(lambda: self.consumer.beginning_offsets(partitions)) if partitions else {}
        there = {one for one in partitions if ends[TopicPartition(*one)] > first[one]}
        self.consumer.assign(there)
        for one in there:
            self.consumer.seek(one, max(first[one], ends[TopicPartition(*one)] - _LOOKED_AT))
        return there

    def _seen(self, one: KafkaTopicPartition, ends: Mapping[TopicPartition, int], known: Collection[str]) -> bool:
        return one.topic in known or self.consumer.position(one) >= ends[TopicPartition(*one)]

    def _assign_again(self, waiting: Collection[KafkaTopicPartition]) -> None:
        """What may not be read is refused with each poll as long as it is assigned."""
        positions = {one: self.consumer.position(one) for one in waiting}
        self.consumer.assign(waiting)
        for one, position in positions.items():
            self.consumer.seek(one, position)


def was_delivered(headers: Iterable[tuple[str, bytes | None]]) -> bool:
    """Whether a record with these headers is one that a job, or a producer in its stead, has delivered."""
    return {name for name, _ in headers if name.startswith(RESERVED_PREFIX)} == {ID}


def _known(
    listed: Mapping[str, Any], described: Mapping[str, Any], answer: Mapping[KafkaTopicPartition, Any]
) -> KnownGroup:
    stored = stored_in(answer)
    skipped = Counter[str]()
    for partition, found in answer.items():
        skipped[partition.topic] += decode(Stored(found.offset, found.metadata or "")).kept.skipped
    topics = {one.topic for one in stored}
    for member in described["members"]:
        for part in (member["member_metadata"], member["member_assignment"]):
            topics |= _topics_in(part)
    members: int | None = len(described["members"])
    if described["error"]:  # it is none of the older protocol
        members = 0 if listed.get("group_state") in _NOBODY else None
    return KnownGroup(listed["group_id"], members, frozenset(topics), stored, +skipped)


def _topics_in(part: Any) -> set[str]:
    """Those of a subscription or an assignment; in a group of other clients than consumers it is anything."""
    if not isinstance(part, Mapping):
        return set()
    return {*part.get("topics", ()), *(one["topic"] for one in part.get("assigned_partitions", ()))}
