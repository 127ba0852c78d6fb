"""How long Kafka keeps half messages: the job reads large ones again, for as long as it may have to write them."""

import logging
from typing import Protocol

from checkback.exceptions import ConfigurationError
from checkback.kafka.kafka_python.library import ConfigResource, ConfigResourceType, KafkaAdminClient


class Times(Protocol):
    """What ``conf.TransactionSettings`` says of how long records are needed, in ms."""

    @property
    def age_limit(self) -> int:
        """Of an undecided message."""

    @property
    def half_retention_ms(self) -> int:
        """Of half messages and ops."""


_LOGGER = logging.getLogger(__name__)
_DAY_MS = 24 * 3_600_000
_TIME, _BYTES = "retention.ms", "retention.bytes"


def shorter_retention(admin: KafkaAdminClient, topic: str, least_ms: int) -> int | None:
    """The topic's retention in ms when it is known to be less than that; None when it is not.

    Says in the log when Kafka also deletes by size there, which nobody can compare with a time.
    """
    asked = ConfigResource(ConfigResourceType.TOPIC, topic, [_TIME, _BYTES])
    said = admin.describe_configs([asked], config_filter="all").get("topic", {}).get(topic, {})
    by_size = int(said[_BYTES]["value"]) if _BYTES in said else -1
    if by_size >= 0:
        _LOGGER.warning(
            "%s is deleted by size (%s=%d): what is still needed when it is full is lost, such as large messages that "
            "are open, parked or delayed. Set it to -1, or watch that it lasts for %.0f days.",
            *(topic, _BYTES, by_size, least_ms / _DAY_MS),
        )
    if _TIME not in said:
        _LOGGER.warning("Kafka does not say how long %s is kept (%s). Grant describe configs on it.", topic, _TIME)
        return None
    kept_ms = int(said[_TIME]["value"])
    return kept_ms if 0 <= kept_ms < least_ms else None


def lengthen(admin: KafkaAdminClient, topic: str, least_ms: int) -> None:
    """Have the topic keep its records for that long.

    Raises:
        ConfigurationError: Kafka does not take it.
    """
    resource = ConfigResource(ConfigResourceType.TOPIC, topic, {_TIME: str(least_ms)})
    answer = admin.alter_configs([resource]).get("topic", {}).get(topic)
    if answer != "OK":
        raise ConfigurationError(f"{topic} cannot be given {_TIME}={least_ms}: {answer}.")


def refuse_short(admin: KafkaAdminClient, topic: str, least_ms: int) -> None:
    """For a job that is about to start.

    Raises:
        ConfigurationError: the topic is known to be kept for less than that.
    """
    kept_ms = shorter_retention(admin, topic, least_ms)
    if kept_ms is not None:
        raise ConfigurationError(
            f"{topic} is kept for {kept_ms / _DAY_MS:.3g} days ({_TIME}={kept_ms}), and large messages are read again "
            "from it until they are delivered: transactions.age_limit and transactions.parked_ttl together, or "
            f"transactions.delay_max if that is longer, and two days are {least_ms / _DAY_MS:.3g} days. Run 'checkback "
            "topics create', which lengthens it, or shorten these."
        )
