"""Settles lanes with kafka-python: bare requests on one client, without a producer for each lane."""

from collections.abc import Mapping
from typing import Any

from kafka.errors import AuthorizationError, KafkaError, for_code
from kafka.protocol.consumer import OffsetFetchRequest
from kafka.protocol.metadata import CoordinatorType
from kafka.protocol.producer import InitProducerIdRequest

from checkback.kafka.client_options import of_reaching
from checkback.kafka.kafka_python import SHARED, make_client
from checkback.kafka.kafka_python.errors import FENCED, passes
from checkback.kafka.kafka_python.repairs import CoordinatorClient
from checkback.kafka.settling_steps import NotYetError, StepwiseSettler, not_settled
from checkback.wire.beside_offsets import without_end
from checkback.wire.lanes import TRANSACTION_TIMEOUT_MS
from checkback.wire.ledger import PARTITION
from checkback.wire.protocol import Topics
from checkback.wire.rights import not_allowed, of_settling

_REQUEST_MS = 5_000
_FENCING_VERSION = 4
"""The latest without preparing a transaction in advance, of which we want nothing."""
_STABLE_VERSION = 8
"""One that can be asked for what has ended; brokers have it since 3.0."""


class KafkaPythonSettler(StepwiseSettler):
    """See :class:`~checkback.kafka.settling.Settler`."""

    def __init__(self, bootstrap_servers: str, topics: Topics, options: Mapping[str, Any]) -> None:
        super().__init__()
        self._topic = topics.progress
        settings = {"bootstrap_servers": bootstrap_servers, "request_timeout_ms": _REQUEST_MS}
        self._kafka: CoordinatorClient = make_client(CoordinatorClient, settings, of_reaching(options), SHARED)

    def close(self) -> None:
        """See :class:`~checkback.kafka.settling.Settler`."""
        self._kafka.close()

    def _fence(self, name: str) -> None:
        request = InitProducerIdRequest(
            transactional_id=name,
            transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
            producer_id=-1,
            producer_epoch=-1,
            max_version=_FENCING_VERSION,
        )
        self._refuse(name, self._asked(name, request, CoordinatorType.TRANSACTION).error_code)

    def _stored(self, name: str) -> str | None:
        of_group = OffsetFetchRequest.OffsetFetchRequestGroup
        topics = [of_group.OffsetFetchRequestTopics(name=self._topic, partition_indexes=[PARTITION])]
        request = OffsetFetchRequest(
            groups=[of_group(group_id=name, topics=topics)],
            require_stable=True,
            min_version=_STABLE_VERSION,
            max_version=_STABLE_VERSION,
        )
        answer = self._asked(name, request, CoordinatorType.GROUP)
        (group,) = answer.groups
        self._refuse(name, group.error_code)
        (topic,) = group.topics
        (partition,) = topic.partitions
        self._refuse(name, partition.error_code)
        return None if partition.committed_offset < 0 else without_end(partition.metadata)

    def _asked(self, name: str, request: Any, kind: CoordinatorType) -> Any:
        try:
            return self._kafka.asked(request, name, kind)
        except (KafkaError, OSError) as error:
            raise self._meant(name, error) from error

    def _refuse(self, name: str, code: int) -> None:
        if code:
            error = for_code(code)()
            raise self._meant(name, error) from error

    def _meant(self, name: str, error: Exception) -> Exception:
        if isinstance(error, AuthorizationError):
            return not_allowed(f"whoever settles lane {name}", error, list(of_settling(self._topic)))
        if passes(error) or isinstance(error, FENCED):  # by another who settles
            return NotYetError(repr(error))
        return not_settled(name, repr(error))
