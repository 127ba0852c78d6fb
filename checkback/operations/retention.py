"""How long Kafka keeps half messages: the job reads large ones again, for as long as it may have to write them."""

import logging
from collections.abc import Mapping
from typing import Protocol

from checkback.exceptions import ConfigurationError

TIME, BYTES = "retention.ms", "retention.bytes"
_LOGGER = logging.getLogger(__name__)
_DAY_MS = 24 * 3_600_000


class Times(Protocol):
    """What ``conf.TransactionSettings`` says of how long records are needed, in ms."""

    @property
    def age_limit(self) -> int:
        """Of an undecided message."""

    @property
    def half_retention_ms(self) -> int:
        """Of half messages and ops."""


def shorter_retention(topic: str, said: Mapping[str, str], least_ms: int) -> int | None:
    """The topic's retention in ms when it is known to be less than that; None when it is not.

    ``said``: its configuration, as far as Kafka tells. It is logged when Kafka also deletes by size there, which nobody
    can compare with a time.
    """
    by_size = int(said.get(BYTES, -1))
    if by_size >= 0:
        _LOGGER.warning(
            "%s is deleted by size (%s=%d): what is still needed when it is full is lost, such as large messages that "
            "are open, parked or delayed. Set it to -1, or watch that it lasts for %.0f days.",
            *(topic, BYTES, by_size, least_ms / _DAY_MS),
        )
    if TIME not in said:
        _LOGGER.warning("Kafka does not say how long %s is kept (%s). Grant describe configs on it.", topic, TIME)
        return None
    kept_ms = int(said[TIME])
    return kept_ms if 0 <= kept_ms < least_ms else None


def refuse_short(topic: str, said: Mapping[str, str], least_ms: int) -> None:
    """For a job that is about to start.

    Raises:
        ConfigurationError: the topic is known to be kept for less than that.
    """
    kept_ms = shorter_retention(topic, said, least_ms)
    if kept_ms is not None:
        raise ConfigurationError(
            f"{topic} is kept for {kept_ms / _DAY_MS:.3g} days ({TIME}={kept_ms}), and large messages are read again "
            "from it until they are delivered: transactions.age_limit and transactions.parked_ttl together, or "
            f"transactions.delay_max if that is longer, and two days are {least_ms / _DAY_MS:.3g} days. Run 'checkback "
            "topics create', which lengthens it, or shorten these."
        )
