"""Consumer groups: who is in one; its offsets, read and stored with care.

librdkafka 2.16 loses calls that store them where it loses the group's coordinator: after a restart of the broker eight
of ten calls of ``send_offsets_to_transaction`` that were under way did not come back, whatever time they were given
(librdkafka's issues 5456 and 5511); ``commit``, which takes none, likewise.

``AdminClient`` is not asked for offsets: ``list_consumer_group_offsets`` ends the whole process by a segmentation fault
where a broker says that it is not the group's coordinator, or not yet (2.16 hands that to the consumer that this client
is not).

What it asks a group's coordinator ends the whole process where it has timed out before the coordinator can be reached,
by "Assertion `eonce->refcnt > 0' failed" (issues 3663 and 4605). So it is asked who is in a group without a time-out of
librdkafka's, and by a client of its own that ends when nobody waits any more.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from checkback.kafka.bounded_calls import within
from checkback.kafka.librdkafka import make_client
from checkback.kafka.librdkafka.errors import NOT_ALLOWED

_CALL_SECONDS = 5.0
_NEVER_SECONDS = 3_600
"""The longest that librdkafka takes."""


def committed(consumer: Consumer, partitions: Sequence[TopicPartition]) -> list[TopicPartition]:
    """What the consumer's group has committed for each partition, in their order; an offset below 0 where nothing is.

    Raises:
        KafkaException: Kafka did not say, of all partitions or of one.
    """
    found = consumer.committed(list(partitions), timeout=_CALL_SECONDS)
    for one in found:
        if one.error is not None:
            raise KafkaException(one.error)
    return list(found)


def committed_by(group: str, partitions: Sequence[TopicPartition], settings: Mapping[str, Any]) -> list[TopicPartition]:
    """What any group has committed by transactions that have ended, by a consumer that lives for this one question.

    Raises:
        KafkaException: as :func:`committed`; it names a right that is missing.
    """
    # at this pace it looks for a coordinator whose connection is not up yet, which every other new client has to
    quick = {"retry.backoff.ms": 5, "retry.backoff.max.ms": 50, "reconnect.backoff.ms": 10}
    of_group = {"group.id": group, "enable.auto.commit": False, "isolation.level": "read_committed"}
    consumer: Consumer = make_client(Consumer, {**quick, **settings, **of_group})
    try:
        return committed(consumer, partitions)
    except KafkaException as error:
        # a group that may not be described is looked for in vain: why is not in the error, but told as a message
        told = consumer.poll(0)
        reason = told.error() if told is not None else None
        if reason is None or reason.code() not in NOT_ALLOWED:  # a broker away, for example: the error says that
            raise
        raise KafkaException(reason) from error
    finally:
        consumer.close()


def in_time(seconds: float, call: Callable[[], Any]) -> None:
    """Make a call that stores a group's offsets, and wait no longer than that.

    Raises:
        KafkaException: what the call raises, or _TIMED_OUT.
    """
    try:
        within(seconds, call)
    except TimeoutError:
        reason = f"the group's offsets were not taken within {seconds:.0f} s"
        # retriable with another client: this one may have lost the call, and its transaction can only be aborted
        error = KafkaError(KafkaError._TIMED_OUT, reason, retriable=True, txn_requires_abort=True)
        raise KafkaException(error) from None


def members_of(group: str, settings: Mapping[str, Any], seconds: float) -> list[Any]:
    """The group's members, as librdkafka describes them (``client_id``, ``host``).

    Raises:
        KafkaException: Kafka does not say, or has not in time (_TIMED_OUT).
    """
    admin = make_client(AdminClient, settings)
    try:
        return list(
            admin.describe_consumer_groups([group], request_timeout=_NEVER_SECONDS)[group].result(seconds).members
        )
    except TimeoutError:
        said = f"who is in group {group} was not told within {seconds:.0f} s"
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT, said, retriable=True)) from None
