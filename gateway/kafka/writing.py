"""Writes records from an asyncio loop, with one client for all."""

import asyncio
import threading
from collections import deque
from collections.abc import Mapping
from typing import Any, NamedTuple

from checkback.exceptions import ConfigurationError
from checkback.kafka.librdkafka import connected, make_client
from checkback.kafka.librdkafka.errors import GONE, NO_TOPIC, NOT_ALLOWED, TOO_LARGE, error_code, flushed
from checkback.kafka.librdkafka.library import KafkaException, Producer
from checkback.kafka.librdkafka.writers import OpWriter, Renewed
from checkback.kafka.reaching import CONNECT_MS, longest_pause_ms, request_ms
from checkback.kafka.transport import Appended, OutgoingRecord
from checkback.wire.limits import MOST_RECORD_BYTES
from gateway.refusals import GatewayError, RefusalReason

_LINGER_MS = 2
_QUEUE_KBYTES = 64 << 10
"""Waiting for Kafka, and as much again in Python. Of librdkafka's default, 1 GiB, a gateway held 3 GiB."""
_LISTEN_SECONDS = 0.002
"""Between two looks for reports while there are some to come. A thread that waits for them costs the loop more: it is
woken for each few, and both want the interpreter at once."""
_SELDOM_SECONDS = 0.1
"""Likewise of clients with nothing under way, which may have failed, and of those that were replaced."""


class _Told(NamedTuple):
    """What became of a record."""

    written: "asyncio.Future[Appended]"
    topic: str
    what: Appended | BaseException


class RecordWriter:
    """Idempotent, with ``acks=all``: what :meth:`write` returns of is in Kafka, once.

    ``options`` are further ones of librdkafka's. To be made and used on one loop.

    Raises:
        KafkaUnreachableError: no Kafka answers.
        WrongOptionError: one of the options does not exist, or cannot be so.
    """

    def __init__(self, bootstrap_servers: str, timeout_ms: int, options: Mapping[str, Any]) -> None:
        self._loop = asyncio.get_running_loop()
        settings = {
            "bootstrap.servers": bootstrap_servers,
            "acks": "all",
            "enable.idempotence": True,
            "partitioner": "murmur2_random",  # as the job's sink has it
            "delivery.timeout.ms": timeout_ms,
            "socket.timeout.ms": request_ms(timeout_ms),
            "linger.ms": _LINGER_MS,
            # librdkafka's default is below Kafka's own; what a topic takes is for the broker to say
            "message.max.bytes": MOST_RECORD_BYTES,
            "reconnect.backoff.max.ms": longest_pause_ms(options, "reconnect.backoff.ms"),
            "queue.buffering.max.kbytes": _QUEUE_KBYTES,
            "log_level": 2,
            **options,
        }
        self._timeout_ms = timeout_ms
        self._clients = Renewed(lambda: OpWriter(make_client(Producer, settings)), timeout_ms / 1000)
        connected(self._clients.writer.client, bootstrap_servers, min(CONNECT_MS, timeout_ms) / 1000)
        self._told: deque[_Told] = deque()
        self._under_way = 0
        self._listening = False
        self._closing = threading.Event()
        self._minding = threading.Thread(target=self._mind, name="gateway-kafka", daemon=True)
        self._minding.start()

    def write(self, record: OutgoingRecord) -> "asyncio.Future[Appended]":
        """Write a record; done when Kafka has it. Its partition may be ``ANY_PARTITION``.

        Raises, from the future:
            GatewayError: Kafka has not taken it, or has not said so in time; then it may have it all the same.
        """
        written: asyncio.Future[Appended] = self._loop.create_future()

        def placed(what: Appended | BaseException) -> None:
            self._told.append(_Told(written, record.topic, what))

        self._clients.writer.write_placed(record, placed, self._clients.spent)
        self._under_way += 1
        if self._told:
            self._hear()  # what librdkafka refuses at once
        self._listen_later()
        return written

    def partitions(self, topic: str) -> int:
        """How many partitions a topic has. Blocks.

        Raises:
            ConfigurationError: Kafka does not have it, or does not say.
        """
        try:
            # all topics: asking for one by its name may create it
            listed = self._clients.writer.client.list_topics(timeout=min(CONNECT_MS, self._timeout_ms) / 1000)
        except KafkaException as error:
            raise ConfigurationError(f"Kafka does not say which partitions {topic} has. ({error})") from error
        found = listed.topics.get(topic)
        if found is None:
            raise ConfigurationError(f"Kafka has no topic {topic}: run 'checkback topics create' first.")
        return len(found.partitions)

    def close(self, seconds: float) -> None:
        """Write what is waiting, for at most ``seconds``, and end. Blocks."""
        for writer in self._clients.writers:
            flushed(writer.client, seconds)
        self._hear()
        self._closing.set()
        self._minding.join(seconds)

    def _mind(self) -> None:
        """On a thread, since to drop a client may take a while; what is heard here, the loop tells at its next look."""
        while not self._closing.wait(_SELDOM_SECONDS):
            self._clients.writer.hear(0)
            self._clients.poll_replaced()

    def _listen_later(self) -> None:
        if self._under_way and not self._listening:
            self._listening = True
            self._loop.call_later(_LISTEN_SECONDS, self._listen)

    def _listen(self) -> None:
        self._listening = False
        try:
            self._clients.writer.hear(0)
            self._hear()
        finally:
            self._listen_later()

    def _hear(self) -> None:
        while self._told:
            written, topic, what = self._told.popleft()
            self._under_way -= 1
            if written.done():  # nobody waits for it any more
                continue
            if isinstance(what, Appended):
                written.set_result(what)
            else:
                written.set_exception(self._refusal(topic, what))

    def _refusal(self, topic: str, error: BaseException) -> GatewayError:
        code = error_code(error) if isinstance(error, KafkaException) else None
        if code in NO_TOPIC:
            return GatewayError(RefusalReason.NO_TOPIC, f"Kafka has no topic {topic}.")
        if code in GONE:
            return GatewayError(RefusalReason.REQUEST, f"Topic {topic} has no such partition.")
        if code in TOO_LARGE:
            return GatewayError(RefusalReason.TOO_LARGE, f"It is larger than topic {topic} takes (max.message.bytes).")
        if code in NOT_ALLOWED:
            return GatewayError(
                RefusalReason.RIGHTS, f"Kafka does not let this gateway write to {topic}: grant its user Write."
            )
        if isinstance(error, BufferError):
            return GatewayError(
                RefusalReason.BUSY, "Too much waits for Kafka in this gateway: send it again, more slowly."
            )
        return GatewayError(
            RefusalReason.KAFKA,
            f"Kafka has not acknowledged it within {self._timeout_ms} ms, and may have it: {error}.",
        )
