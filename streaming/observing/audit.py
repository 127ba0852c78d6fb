"""Writes to ``cb.audit`` which policy holds and what it refuses; nothing waits for it, and nothing ends by it."""

import logging
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from checkback.kafka.librdkafka import make_client
from checkback.kafka.librdkafka.errors import flushed, polled
from checkback.kafka.librdkafka.library import KafkaException, Producer
from checkback.wire.audit import AuditKind, AuditRecord
from streaming.brokers.client import SinkSettings

_LOGGER = logging.getLogger(__name__)
_MOST = 100
"""Records of one batch: whoever writes may make every group and topic a new one."""
_CLOSE_SECONDS = 2.0


class AuditTrail:
    """Connects when there is something to tell, so an installation without a policy has no connection for it."""

    def __init__(self, settings: SinkSettings) -> None:
        self._settings = settings
        self._producer: Any = None
        self._failed = False

    def tell(self, records: Iterable[AuditRecord]) -> None:
        """Have these written; what cannot be is in the log, once."""
        for record in records:
            try:
                if self._producer is None:
                    self._producer = make_client(Producer, self._settings.client(acks="all"))
                self._producer.produce(self._settings.topics.audit, record.value, on_delivery=self._ended)
            except (KafkaException, BufferError) as error:
                self._ended(error, None)
        if self._producer is not None:
            polled(self._producer, 0)  # reports of earlier records

    def close(self) -> None:
        """Wait a moment for what is on its way."""
        if self._producer is not None:
            flushed(self._producer, _CLOSE_SECONDS)

    def _ended(self, error: object, _: object) -> None:
        if error is not None and not self._failed:
            topic = self._settings.topics.audit
            _LOGGER.warning("What the access policy does is not in %s: %s. Let the job write there.", topic, error)
        self._failed = error is not None


def refusals(refused: Mapping[tuple[str, str, str], int]) -> Iterator[AuditRecord]:
    """What is told of a batch: those with most first, and the sum of the others."""
    ordered = sorted(refused.items(), key=lambda one: -one[1])
    for (group, topic, reason), number in ordered[:_MOST]:
        yield AuditRecord(AuditKind.REFUSED, group, reason, group=group, topic=topic, number=number)
    if len(ordered) > _MOST:
        rest = sum(number for _, number in ordered[_MOST:])
        yield AuditRecord(AuditKind.REFUSED, "", "of more groups and topics", number=rest)
