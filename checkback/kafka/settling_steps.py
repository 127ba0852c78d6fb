"""The steps of settling a lane, in order, as both libraries take them."""

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable
from time import monotonic, sleep
from typing import TypeVar

from checkback.exceptions import ConfigurationError, KafkaUnreachableError, ProtocolError
from checkback.wire.lanes import transactional_id
from checkback.wire.ledger import Ledger

T = TypeVar("T")

_LOGGER = logging.getLogger(__name__)
_SETTLED_SECONDS = 20.0
"""Longest wait until the last transaction has ended and its ledger can be read: brokers may restart meanwhile."""
_FIRST_PAUSE_SECONDS = 0.002
_LONGEST_PAUSE_SECONDS = 0.1


class StepwiseSettler(ABC):
    """What settlers of both libraries have in common: the steps, in order, each until Kafka has an answer.

    ``clock`` is in seconds.
    """

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock

    def settle(self, group: str, lane: str) -> Ledger | None:
        """See :class:`~checkback.kafka.settling.Settler`."""
        name = transactional_id(group, lane)
        until = self._clock() + _SETTLED_SECONDS
        self._answered(name, until, lambda: self._fence(name))  # 1
        metadata = self._answered(name, until, lambda: self._stored(name))  # 2
        if metadata is None:
            return None
        try:
            return Ledger.parse(metadata)
        except ProtocolError as error:  # written by somebody else who may
            _LOGGER.warning("Nobody can know what lane %s has delivered: %s", name, error)
            return None

    def _answered(self, name: str, until: float, step: Callable[[], T]) -> T:
        pause = _FIRST_PAUSE_SECONDS
        while True:
            try:
                return step()
            except NotYetError as error:
                if self._clock() >= until:
                    said = f"Lane {name} could not be settled within {_SETTLED_SECONDS:.0f} s: {error}"
                    raise KafkaUnreachableError(said) from error
            sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)

    @abstractmethod
    def _fence(self, name: str) -> None:
        """Fence the lane of this transactional id. It returns when its last transaction has ended in each partition.

        Raises NotYetError where the same call may go well later, ConfigurationError where it is not allowed.
        """

    @abstractmethod
    def _stored(self, name: str) -> str | None:
        """What is stored as the lane's ledger, by a transaction that has ended; None: nothing. Raises likewise."""

    @abstractmethod
    def close(self) -> None:
        """See :class:`~checkback.kafka.settling.Settler`."""


class NotYetError(Exception):
    """Kafka is away, or busy with itself or the lane; a step of settling is tried again."""


def not_settled(name: str, error: object) -> ConfigurationError:
    """What to raise where trying again would not help."""
    return ConfigurationError(f"Lane {name} cannot be settled: {error}. Lanes need brokers of Kafka 3.0 or later.")
