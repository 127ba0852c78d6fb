"""The transport on confluent-kafka, librdkafka's client."""

import threading
from collections.abc import Collection, Mapping, Sequence
from time import monotonic, sleep
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition

from checkback.exceptions import ConfigurationError, KafkaUnreachableError
from checkback.kafka.client_options import of_reaching, refuse_options
from checkback.kafka.librdkafka import connected, make_client
from checkback.kafka.librdkafka.errors import TIMED_OUT, flushed
from checkback.kafka.librdkafka.groups import committed_by
from checkback.kafka.librdkafka.topics import hidden, refusals
from checkback.kafka.librdkafka.writers import HalfWriter, OpWriter, Renewed
from checkback.kafka.reaching import CONNECT_MS, longest_pause_ms, request_ms
from checkback.kafka.send_limits import Notice
from checkback.kafka.transport import OP_LINGER_MS, Appended, Heard, Lost, OutgoingRecord, may_not_look, may_not_write
from checkback.wire.groups import limit_group, metadata_of

_IDLE_SECONDS = 0.5
_JUST_MADE_SECONDS = 2.0  # until a broker knows of a topic that was made a moment ago
_LOOK_AGAIN_SECONDS = 0.1

_ALL = ("all", -1, "-1")
_FIXED: Mapping[str, tuple[object, ...]] = {
    "acks": _ALL,
    "request.required.acks": _ALL,
    "enable.idempotence": (True, "true"),
    "delivery.report.only.error": (False, "false"),
    **dict.fromkeys(("bootstrap.servers", "metadata.broker.list", "transactional.id", "on_delivery", "dr_cb"), ()),
}
"""What a half message's acknowledgement, and its place, rest on."""


class ConfluentTransport:
    """Two clients, so that an op never stands before a half message, and many ops share a request.

    See :class:`~checkback.kafka.transport.Transport`.
    """

    def __init__(
        self, bootstrap_servers: str, half_timeout_ms: int, options: Mapping[str, Any], *, hears_ops: bool = False
    ) -> None:
        refuse_options(options, _FIXED, "a producer")
        self._half_timeout_ms = half_timeout_ms
        settings = {
            "bootstrap.servers": bootstrap_servers,
            "acks": "all",
            "enable.idempotence": True,
            "delivery.timeout.ms": half_timeout_ms,
            "socket.timeout.ms": request_ms(half_timeout_ms),
            "reconnect.backoff.max.ms": longest_pause_ms(options, "reconnect.backoff.ms"),
            "log_level": 2,
            **options,
        }
        self._asking = {"log_level": 2, **of_reaching(options), "bootstrap.servers": bootstrap_servers}
        for_halves = {"linger.ms": 0, **settings}
        for_ops = {"linger.ms": OP_LINGER_MS, "delivery.report.only.error": not hears_ops, **settings}
        pause = half_timeout_ms / 1000
        self._halves = Renewed(lambda: HalfWriter(make_client(Producer, for_halves), half_timeout_ms), pause)
        self._ops = Renewed(lambda: OpWriter(make_client(Producer, for_ops)), pause)
        connected(self._halves.writer.client, bootstrap_servers, min(CONNECT_MS, half_timeout_ms) / 1000)
        self._closing = threading.Event()
        # Only lost ops are reported, and nobody waits for those.
        self._idle = threading.Thread(target=self._poll_idly, name="checkback-ops", daemon=True)
        self._idle.start()

    def partitions(self, half_topic: str, op_topic: str) -> int:
        """See :class:`~checkback.kafka.transport.Transport`."""
        halves, ops = self._halves.writer.client, self._ops.writer.client
        return min(self._partitions(halves, half_topic), self._partitions(ops, op_topic))

    def _partitions(self, client: Producer, topic: str) -> int:
        until = monotonic() + min(self._half_timeout_ms / 1000, _JUST_MADE_SECONDS)
        while True:
            try:
                # all topics: asking for one by its name may create it
                return len(client.list_topics(timeout=self._half_timeout_ms / 1000).topics[topic].partitions)
            except (KafkaException, KeyError) as error:
                if isinstance(error, KeyError):
                    for error_of_topic in hidden(self._asking, [topic], CONNECT_MS / 1000).values():
                        raise may_not_write(topic, error_of_topic) from error
                if isinstance(error, KafkaException) or monotonic() > until:
                    raise ConfigurationError(f"Kafka has no topic {topic}. ({error!r})") from error
            sleep(_LOOK_AGAIN_SECONDS)

    def missing(self, topics: Sequence[str]) -> list[str]:
        """See :class:`~checkback.kafka.transport.Transport`."""
        found = refusals(self._asking, topics, CONNECT_MS / 1000)
        for error in found.values():
            if error.code() in TIMED_OUT or error.code() == KafkaError._ALL_BROKERS_DOWN:
                raise KafkaUnreachableError(f"Kafka does not say which topics it has: {error}.")
        may_not_look(name for name, error in found.items() if error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED)
        return [name for name, error in found.items() if error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART]

    def limit_notices(self, progress_topic: str, groups: Collection[str]) -> dict[str, Notice]:
        """See :class:`~checkback.kafka.send_limits.SendLimits`."""
        place = [TopicPartition(progress_topic, 0)]
        stored = {group: committed_by(limit_group(group), place, self._asking)[0] for group in groups}
        return {group: (one.offset, metadata_of(one)) for group, one in stored.items() if one.offset > 0}

    def write_half(self, record: OutgoingRecord) -> Appended:
        """See :class:`~checkback.kafka.transport.Transport`."""
        return self._halves.writer.write(record, self._halves.spent)

    def write_op(self, record: OutgoingRecord, lost: Lost) -> None:
        """See :class:`~checkback.kafka.transport.Transport`."""
        self._ops.writer.write(record, lost, self._ops.spent)

    def write_heard(self, record: OutgoingRecord, heard: Heard) -> None:
        """See :class:`~checkback.kafka.transport.TellingTransport`; it was made with ``hears_ops``."""
        self._ops.writer.write_heard(record, heard, self._ops.spent)

    def hear(self) -> None:
        """See :class:`~checkback.kafka.transport.TellingTransport`."""
        self._ops.writer.hear(0)

    def flush(self, seconds: float) -> None:
        """See :class:`~checkback.kafka.transport.Transport`."""
        deadline = monotonic() + seconds
        for ops in self._ops.writers:
            flushed(ops.client, max(0.0, deadline - monotonic()))

    def close(self, seconds: float) -> None:
        """See :class:`~checkback.kafka.transport.Transport`."""
        self._closing.set()
        self._idle.join(seconds)
        self.flush(seconds)
        flushed(self._halves.writer.client, seconds)

    def _poll_idly(self) -> None:
        while not self._closing.wait(_IDLE_SECONDS):
            self._ops.writer.hear(0)
            self._ops.poll_replaced()
            self._halves.poll_replaced()
