"""Who is in a consumer group.

What ``AdminClient`` asks a group's coordinator ends the whole process where it has timed out before the coordinator
can be reached, by "Assertion `eonce->refcnt > 0' failed" (librdkafka 2.16; its issues 3663 and 4605). So it is asked
without a time-out of librdkafka's, and by a client of its own that ends when nobody waits any more.
"""

from collections.abc import Mapping
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from checkback.kafka.librdkafka import make_client

_NEVER_SECONDS = 3_600
"""The longest that librdkafka takes."""


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
