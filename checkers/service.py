"""The check service: one thread takes checks from Kafka, an asyncio loop asks endpoints, one thread writes the answers.

Every check is asked at least once: an offset of ``cb.check`` is committed only when all checks before it have been
answered. An answer that Kafka would not take is given up: the state machine asks again. Asking twice is harmless, it
counts one answer.
"""

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from contextlib import closing
from queue import Empty, SimpleQueue
from typing import Any

import aiohttp
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import CommitFailedError
from kafka.structs import OffsetAndMetadata

from checkback.check_protocol import CheckRequest
from checkback.exceptions import CheckbackError, ProtocolError
from checkback.protocol import Source, Topics, op_headers
from checkers.admission import AllowList
from checkers.ask import Asker, Verdict
from checkers.directory import EndpointDirectory
from checkers.groups import Check, Groups
from checkers.reading import poll
from checkers.session import open_session, tls_context
from checkers.window import OffsetWindow
from conf import Settings

_LOGGER = logging.getLogger(__name__)
_POLL_MS = 50
_METADATA_MS = 60_000
_POLL_RECORDS = 500
_COMMIT_SECONDS = 1.0
_HEAR_SECONDS = 0.2

_Place = tuple[TopicPartition, int]


class CheckService:
    """Answers checks until stopped. Several may run: they share ``cb.check`` as one consumer group.

    ``clock_ms`` is any clock that does not run backwards.

    Raises:
        ConfigurationError: the TLS files in the settings cannot be used.
    """

    def __init__(
        self, settings: Settings, clock_ms: Callable[[], int] = lambda: time.monotonic_ns() // 1_000_000
    ) -> None:
        self._settings = settings
        self._topics = Topics(settings.kafka.topic_prefix)
        self._clock_ms = clock_ms
        self._tls = tls_context(settings.checks)
        fixed = {group: [str(url) for url in urls] for group, urls in settings.checks.endpoints.items()}
        # The directory and the groups belong to the loop's thread, the windows to the consumer's.
        self._directory = EndpointDirectory(fixed, settings.checks.endpoint_ttl)
        self._groups: Groups  # made on the loop, by _open
        self._windows: dict[TopicPartition, OffsetWindow] = {}
        self._answers: SimpleQueue[tuple[Check, Verdict] | None] = SimpleQueue()
        self._done: SimpleQueue[_Place] = SimpleQueue()
        self._stopping = threading.Event()
        self._asking = threading.Event()
        self._failure: BaseException | None = None
        self._loop: asyncio.AbstractEventLoop  # made by start: a service that never starts holds nothing
        self._threads = [
            threading.Thread(target=self._guard, args=(work,), name=f"checks-{name}", daemon=True)
            for name, work in (("http", self._ask), ("kafka", self._serve))
        ]

    def start(self) -> None:
        """Start the threads; returns at once."""
        self._loop = asyncio.new_event_loop()
        for thread in self._threads:
            thread.start()

    def raise_if_dead(self) -> None:
        """Raise what ended the service, if anything did."""
        if self._failure is not None:
            raise CheckbackError(f"The check service ended: {self._failure!r}") from self._failure

    def stop(self, seconds: float = 10.0) -> None:
        """Stop; checks under way are asked again by whoever comes next."""
        self._stopping.set()
        asking, serving = self._threads
        serving.join(seconds)
        self._loop.call_soon_threadsafe(self._loop.stop)
        asking.join(seconds)

    def _guard(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:
            self._failure = self._failure or error
            _LOGGER.exception("The check service ended")

    def _ask(self) -> None:
        asyncio.set_event_loop(self._loop)
        session = self._loop.run_until_complete(self._open())
        self._asking.set()
        self._loop.run_forever()
        pending = asyncio.all_tasks(self._loop)
        for task in pending:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*pending, return_exceptions=True))
        self._loop.run_until_complete(session.close())
        self._loop.close()

    async def _open(self) -> aiohttp.ClientSession:
        checks = self._settings.checks
        allowed = AllowList(checks.allowed_hosts)
        session = open_session(checks, allowed, self._tls)
        keys = {group: key.get_secret_value().encode() for group, key in checks.keys.items()}
        self._groups = Groups(
            self._directory,
            Asker(session, allowed, keys),
            lambda check, verdict: self._answers.put((check, verdict)),
            self._clock_ms,
            concurrency=checks.concurrency_per_group,
            queue=checks.queue_per_group,
        )
        return session

    def _serve(self) -> None:
        while not self._asking.wait(0.1):  # the loop has not opened its session yet
            if self._failure is not None:
                return
        kafka = self._settings.kafka
        client: dict[str, Any] = {"bootstrap_servers": kafka.bootstrap_servers, **kafka.client_options}
        consumer = KafkaConsumer(
            self._topics.check,
            group_id=f"{kafka.topic_prefix}checkers",
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
            max_poll_records=_POLL_RECORDS,
            **client,
        )
        # an op topic that was grown is noticed soon: an answer to a partition that is not known is lost
        producer = KafkaProducer(**{"acks": "all", "linger_ms": 5, "metadata_max_age_ms": _METADATA_MS, **client})
        writer = threading.Thread(
            target=self._guard, args=(lambda: self._write(producer),), name="checks-answers", daemon=True
        )
        writer.start()
        try:
            self._take_until_stopped(consumer, self._registry_consumer(client))
        finally:
            self._answers.put(None)
            writer.join()
            producer.flush(timeout=30)
            self._commit(consumer)
            producer.close(timeout=5)
            consumer.close()

    def _take_until_stopped(self, consumer: KafkaConsumer, registry: KafkaConsumer) -> None:
        last_commit = last_heard = time.monotonic()
        with closing(registry):
            while not self._stopping.is_set():
                if time.monotonic() - last_heard >= _HEAR_SECONDS:
                    self._hear(registry)
                    last_heard = time.monotonic()
                self._take(consumer)
                if time.monotonic() - last_commit >= _COMMIT_SECONDS:
                    self._commit(consumer)
                    last_commit = time.monotonic()

    def _registry_consumer(self, client: dict[str, Any]) -> KafkaConsumer:
        registry = KafkaConsumer(auto_offset_reset="earliest", enable_auto_commit=False, **client)
        places = [TopicPartition(self._topics.producers, 0)]
        registry.assign(places)
        registry.seek_to_beginning(*places)
        end = registry.end_offsets(places)[places[0]]
        while registry.position(places[0]) < end:  # know the endpoints before the first check is asked
            self._hear(registry, wait_ms=100)
        return registry

    def _hear(self, registry: KafkaConsumer, wait_ms: int = 0) -> None:
        for records in poll(registry, wait_ms).values():
            for record in records:
                if record.key is not None:
                    self._loop.call_soon_threadsafe(self._directory.hear, record.key, record.value, self._clock_ms())

    def _take(self, consumer: KafkaConsumer) -> None:
        polled = poll(consumer, _POLL_MS)
        assigned = consumer.assignment()
        self._windows = {place: window for place, window in self._windows.items() if place in assigned}
        checks: list[Check] = []
        for place, records in polled.items():
            window = self._windows.setdefault(place, OffsetWindow(records[0].offset))
            for record in records:
                window.begin(record.offset)
                try:
                    request = CheckRequest.from_record(record.value, record.headers)
                except ProtocolError as error:
                    _LOGGER.warning("Skipped a record of %s: %s", self._topics.check, error)
                    window.finish(record.offset)
                    continue
                checks.append(Check(request, (place, record.offset)))
        if checks:
            self._loop.call_soon_threadsafe(lambda: self._groups.take(checks))

    def _write(self, producer: KafkaProducer) -> None:
        while (answered := self._answers.get()) is not None:
            check, verdict = answered
            request = check.request
            try:
                headers = op_headers(request.transaction_id, request.group, request.half, verdict.action, Source.CHECK)
                future = producer.send(
                    self._topics.op,
                    verdict.remark.encode(errors="replace"),
                    headers=headers,
                    partition=request.half.partition,
                )
            except (ProtocolError, ValueError) as error:  # a record that names a partition the op topic does not have
                _LOGGER.warning("Skipped a record of %s: %s", self._topics.check, error)
                self._done.put(check.origin)
                continue
            future.add_callback(self._written, check.origin)
            future.add_errback(self._not_written, check.origin)

    def _written(self, origin: _Place, _: object) -> None:
        self._done.put(origin)

    def _not_written(self, origin: _Place, error: BaseException) -> None:
        # The state machine asks again after check_answer_ttl; waiting here would hold up all others.
        _LOGGER.error("The answer to a check was not written: %s", error)
        self._done.put(origin)

    def _commit(self, consumer: KafkaConsumer) -> None:
        """Commit what is answered; what is still on its way to Kafka waits for the next time."""
        while True:
            try:
                place, offset = self._done.get_nowait()
            except Empty:
                break
            if place in self._windows:
                self._windows[place].finish(offset)
        offsets = {place: OffsetAndMetadata(window.committable, "", -1) for place, window in self._windows.items()}
        if not offsets:
            return
        try:
            consumer.commit(offsets)
        except CommitFailedError:  # the partitions went to another service meanwhile, which asks once more
            self._windows.clear()
