"""The transport on kafka-python."""

import contextlib
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from threading import Lock
from time import monotonic
from typing import Any

from kafka import KafkaAdminClient, KafkaProducer
from kafka.errors import KafkaError, KafkaTimeoutError, TopicAuthorizationFailedError, UnknownTopicOrPartitionError

from checkback.exceptions import CheckbackError, ConfigurationError, KafkaUnreachableError
from checkback.kafka.bounded_calls import in_thread
from checkback.kafka.client_options import of_reaching
from checkback.kafka.kafka_python import SHARED, make_client
from checkback.kafka.kafka_python.errors import is_refusal
from checkback.kafka.kafka_python.repairs import close_producer
from checkback.kafka.reaching import CONNECT_MS, request_ms
from checkback.kafka.send_limits import Notice, read_notices
from checkback.kafka.transport import (
    NO_PLACE,
    OP_LINGER_MS,
    Appended,
    Lost,
    OutgoingRecord,
    may_not_look,
    may_not_write,
    not_acknowledged,
    not_written,
)

_FIXED: Mapping[str, tuple[object, ...]] = {
    "acks": ("all", -1),
    "enable_idempotence": (True,),
    **dict.fromkeys(("key_serializer", "value_serializer"), (None,)),
    **dict.fromkeys(("bootstrap_servers", "transactional_id"), ()),
}
"""What a half message's acknowledgement, its place and its bytes rest on."""
_LOGGER = logging.getLogger(__name__)
_SECONDS = 1.0
"""Between two clients: each of them asks Kafka before it says that it cannot be."""


class KafkaPythonTransport:
    """Two clients, so that an op never stands before a half message, and many ops share a request.

    See :class:`~checkback.kafka.transport.Transport`.
    """

    def __init__(self, bootstrap_servers: str, half_timeout_ms: int, options: Mapping[str, Any]) -> None:
        self._half_timeout_ms = half_timeout_ms
        settings = {
            "bootstrap_servers": bootstrap_servers,
            "bootstrap_timeout_ms": min(CONNECT_MS, half_timeout_ms),
            "acks": "all",
            "enable_idempotence": True,
            "max_block_ms": half_timeout_ms,
            "delivery_timeout_ms": half_timeout_ms,
            "request_timeout_ms": request_ms(half_timeout_ms),
            "metrics_enabled": False,  # nobody reads them, and they are a tenth of its time
        }
        self._bootstrap_servers, self._options = bootstrap_servers, options
        for_ops = {**settings, "linger_ms": min(OP_LINGER_MS, half_timeout_ms // 2)}
        made = partial(make_client, KafkaProducer, options=options, fixed=_FIXED, whose="a producer")
        self._halves, self._ops = LastingProducer(partial(made, settings)), LastingProducer(partial(made, for_ops))

    def partitions(self, half_topic: str, op_topic: str) -> int:
        """See :class:`~checkback.kafka.transport.Transport`. Asks Kafka every 5 min (``metadata_max_age_ms``)."""
        return min(_partitions(self._halves.client, half_topic), _partitions(self._ops.client, op_topic))

    def missing(self, topics: Sequence[str]) -> list[str]:
        """See :class:`~checkback.kafka.transport.Transport`. A producer's own client would wait for them to come."""
        servers = {"bootstrap_servers": self._bootstrap_servers}
        try:
            with contextlib.closing(
                make_client(KafkaAdminClient, servers, of_reaching(self._options), SHARED)
            ) as admin:
                found = admin.describe_topics(list(topics))
        except KafkaError as error:
            raise KafkaUnreachableError(f"Kafka does not say which topics it has: {error!r}.") from error
        may_not_look(topic["name"] for topic in found if topic["error_code"] == TopicAuthorizationFailedError.errno)
        return [topic["name"] for topic in found if topic["error_code"] == UnknownTopicOrPartitionError.errno]

    def limit_notices(self, progress_topic: str, groups: Collection[str]) -> dict[str, Notice]:
        """See :class:`~checkback.kafka.send_limits.SendLimits`."""
        return read_notices(self._bootstrap_servers, self._options, progress_topic, groups)

    def write_half(self, record: OutgoingRecord) -> Appended:
        """See :class:`~checkback.kafka.transport.Transport`."""
        try:
            found = _send(self._halves.client, record).get(timeout=self._half_timeout_ms / 1000)
            if found.offset < 0:
                raise not_acknowledged(self._half_timeout_ms, NO_PLACE)
            return Appended(int(found.offset), int(found.timestamp))
        except KafkaTimeoutError as error:
            raise not_acknowledged(self._half_timeout_ms, error) from error
        except KafkaError as error:
            raise not_written(may_not_write(record.topic, error) if is_refusal(error) else error) from error
        except (ValueError, TypeError) as error:
            raise not_written(error) from error

    def write_op(self, record: OutgoingRecord, lost: Lost) -> None:
        """See :class:`~checkback.kafka.transport.Transport`."""
        try:
            future = _send(self._ops.client, record)
        except (KafkaError, ValueError) as error:  # closed meanwhile, too
            lost(error)
        else:
            future.add_errback(lost)

    def flush(self, seconds: float) -> None:
        """See :class:`~checkback.kafka.transport.Transport`."""
        with contextlib.suppress(KafkaTimeoutError):  # what Kafka does not have by then is tried on
            self._ops.flush(seconds)

    def close(self, seconds: float) -> None:
        """See :class:`~checkback.kafka.transport.Transport`."""
        self._ops.close(seconds)
        self._halves.close(seconds)


def _partitions(client: KafkaProducer, topic: str) -> int:
    try:
        return len(client.partitions_for(topic))
    except TopicAuthorizationFailedError as error:
        raise may_not_write(topic, error) from error
    except (KafkaError, TypeError) as error:
        raise ConfigurationError(f"Kafka has no topic {topic}. ({error!r})") from error


def _send(client: KafkaProducer, record: OutgoingRecord) -> Any:
    headers = list(record.headers)
    return client.send(record.topic, record.value, record.key, headers=headers, partition=record.partition)


class LastingProducer:
    """Makes another client where the last one can do no more: Kafka refused it, and may not any more.

    An idempotent producer of kafka-python's that was not given a producer id once fails for ever. What was under way
    on it is reported as lost. Threads may share one. ``clock`` is in seconds.
    """

    def __init__(self, make: Callable[[], KafkaProducer], clock: Callable[[], float] = monotonic) -> None:
        self._make = make
        self._clock = clock
        self._changing = Lock()
        self._client = make()
        self._next_at = clock() + _SECONDS
        self._closed = False

    @property
    def client(self) -> KafkaProducer:
        """The one to use now. While one thread makes it, which may take seconds, others have the old one."""
        if _has_failed(self._client) and self._changing.acquire(blocking=False):
            try:
                if _has_failed(self._client) and self._clock() >= self._next_at:
                    self._replace()
                    self._next_at = self._clock() + _SECONDS
            finally:
                self._changing.release()
        return self._client

    def flush(self, seconds: float) -> None:
        """Wait until what is under way is in Kafka, for at most ``seconds``.

        Raises:
            KafkaTimeoutError: it is not.
        """
        self._client.flush(timeout=seconds)

    def close(self, seconds: float) -> None:
        """See :func:`~checkback.kafka.kafka_python.repairs.close_producer`. None takes its place any more."""
        self._closed = True
        close_producer(self._client, seconds)

    def _replace(self) -> None:
        if self._closed:
            return
        with contextlib.suppress(KafkaError, CheckbackError):  # the old one says why it has failed
            new, old = self._make(), self._client
            _LOGGER.warning("A Kafka client failed, and another one takes its place: %s", _reason(old))
            self._client = new
            in_thread(lambda: close_producer(old, 0))


def _has_failed(client: KafkaProducer) -> bool:
    return bool(client._transaction_manager.has_fatal_error())  # noqa: SLF001  (nothing else says so in time)


def _reason(client: KafkaProducer) -> object:
    return client._transaction_manager.last_error  # noqa: SLF001  (likewise)
