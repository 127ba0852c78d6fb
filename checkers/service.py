"""The check service: one thread reads and writes Kafka, one asyncio loop asks endpoints.

Every check is asked at least once: an offset of ``cb.check`` is committed only when all checks before it have been
answered. An answer that Kafka would not take is given up: the state machine asks again. Asking twice is harmless, it
counts one answer.
"""

import asyncio
import logging
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Coroutine
from queue import Empty, SimpleQueue
from typing import Any

import httpx
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import CommitFailedError
from kafka.structs import OffsetAndMetadata

from checkback.check_protocol import CheckRequest
from checkback.exceptions import CheckbackError, ProtocolError
from checkback.protocol import Action, Source, Topics, op_headers
from checkers.ask import Asker, Verdict
from checkers.directory import EndpointDirectory
from checkers.window import OffsetWindow
from conf import Settings

_LOGGER = logging.getLogger(__name__)
_POLL_MS = 50
_COMMIT_SECONDS = 1.0


class CheckService:
    """Answers checks until stopped. Several may run: they share ``cb.check`` as one consumer group."""

    def __init__(self, settings: Settings, clock_ms: Callable[[], int] = lambda: int(time.time() * 1000)) -> None:
        self._settings = settings
        self._topics = Topics(settings.kafka.topic_prefix)
        self._clock_ms = clock_ms
        fixed = {group: [str(url) for url in urls] for group, urls in settings.checks.endpoints.items()}
        self._directory = EndpointDirectory(fixed, settings.checks.endpoint_ttl)
        self._answers: SimpleQueue[tuple[TopicPartition, int, CheckRequest, Verdict]] = SimpleQueue()
        self._windows: dict[TopicPartition, OffsetWindow] = {}
        self._sent: list[tuple[TopicPartition, int, Any]] = []
        self._stopping = threading.Event()
        self._failure: BaseException | None = None
        self._loop = asyncio.new_event_loop()
        self._groups = _Groups(settings)
        self._threads = [
            threading.Thread(target=self._run_loop, name="checks-http", daemon=True),
            threading.Thread(target=self._run_kafka, name="checks-kafka", daemon=True),
        ]

    def start(self) -> None:
        """Start both threads; returns at once."""
        for thread in self._threads:
            thread.start()

    def raise_if_dead(self) -> None:
        """Raise what ended the service, if anything did."""
        if self._failure is not None:
            raise CheckbackError(f"The check service ended: {self._failure!r}") from self._failure

    def stop(self, seconds: float = 10.0) -> None:
        """Stop; checks under way are asked again by whoever comes next."""
        self._stopping.set()
        self._threads[1].join(seconds)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._threads[0].join(seconds)

    def _run_loop(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()
        pending = asyncio.all_tasks(self._loop)
        for task in pending:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*pending, return_exceptions=True))
        self._loop.run_until_complete(self._groups.close())
        self._loop.close()

    def _run_kafka(self) -> None:
        try:
            self._serve()
        except Exception as error:
            self._failure = error
            _LOGGER.exception("The check service ended")

    def _serve(self) -> None:
        kafka = self._settings.kafka
        client: dict[str, Any] = {"bootstrap_servers": kafka.bootstrap_servers, **kafka.client_options}
        consumer = KafkaConsumer(
            self._topics.check,
            group_id=f"{kafka.topic_prefix}checkers",
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
            max_poll_records=500,
            **client,
        )
        registry = self._registry_consumer(client)
        producer = KafkaProducer(acks="all", linger_ms=5, **client)
        try:
            last_commit = time.monotonic()
            while not self._stopping.is_set():
                self._hear(registry)
                self._take(consumer)
                self._answer(producer)
                if time.monotonic() - last_commit >= _COMMIT_SECONDS:
                    self._commit(consumer, producer)
                    last_commit = time.monotonic()
            self._answer(producer)
            self._commit(consumer, producer)
        finally:
            producer.close(timeout=5)
            registry.close()
            consumer.close()

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
        for records in registry.poll(timeout_ms=wait_ms).values():
            for record in records:
                if record.key is not None:
                    self._directory.hear(record.key, record.value, self._clock_ms())

    def _take(self, consumer: KafkaConsumer) -> None:
        polled = consumer.poll(timeout_ms=_POLL_MS)
        assigned = consumer.assignment()
        self._windows = {place: window for place, window in self._windows.items() if place in assigned}
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
                self._submit(place, record.offset, request)

    def _submit(self, place: TopicPartition, offset: int, request: CheckRequest) -> None:
        endpoints = self._directory.endpoints(request.group, self._clock_ms())

        async def ask() -> None:
            verdict = await self._groups.ask(request, endpoints)
            self._answers.put((place, offset, request, verdict))

        asyncio.run_coroutine_threadsafe(ask(), self._loop)

    def _answer(self, producer: KafkaProducer) -> None:
        while True:
            try:
                place, offset, request, verdict = self._answers.get_nowait()
            except Empty:
                return
            headers = op_headers(request.transaction_id, request.group, request.half, verdict.action, Source.CHECK)
            try:
                future = producer.send(
                    self._topics.op,
                    verdict.remark.encode(errors="replace"),
                    headers=headers,
                    partition=request.half.partition,
                )
            except ValueError as error:  # a record that names a partition the op topic does not have
                _LOGGER.warning("Skipped a record of %s: %s", self._topics.check, error)
                if place in self._windows:
                    self._windows[place].finish(offset)
                continue
            self._sent.append((place, offset, future))

    def _commit(self, consumer: KafkaConsumer, producer: KafkaProducer) -> None:
        producer.flush(timeout=30)
        sent, self._sent = self._sent, []
        for place, offset, future in sent:
            if future.failed():
                # The state machine asks again after check_answer_ttl; waiting here would hold up all others.
                _LOGGER.error("The answer to a check was not written: %s", future.exception)
            if place in self._windows:
                self._windows[place].finish(offset)
        offsets = {place: OffsetAndMetadata(window.committable, "", -1) for place, window in self._windows.items()}
        if not offsets:
            return
        try:
            consumer.commit(offsets)
        except CommitFailedError:  # the partitions went to another service meanwhile, which asks once more
            self._windows.clear()


class _Groups:
    """A bounded queue for each producer group, so that one that hangs delays no other."""

    def __init__(self, settings: Settings) -> None:
        self._checks = settings.checks
        self._client: httpx.AsyncClient | None = None
        self._slots: dict[str, asyncio.Semaphore] = {}
        self._waiting: defaultdict[str, int] = defaultdict(int)

    async def ask(self, request: CheckRequest, endpoints: list[str]) -> Verdict:
        """Ask the group's endpoints in turn until one can be reached."""
        group = request.group
        if not endpoints:
            return Verdict(Action.UNREACHABLE, f"no live endpoint of group {group} is known")
        if self._waiting[group] >= self._checks.queue_per_group:
            return Verdict(Action.UNREACHABLE, f"too many checks of group {group} are waiting")
        slot = self._slots.setdefault(group, asyncio.Semaphore(self._checks.concurrency_per_group))
        self._waiting[group] += 1
        try:
            async with slot:
                return await self._ask_one_of(endpoints, request)
        except Exception as error:  # an answer must come in any case: the offset waits for it
            _LOGGER.exception("Asking for %s failed", request.transaction_id)
            return Verdict(Action.UNKNOWN, f"asking failed: {error!r}")
        finally:
            self._waiting[group] -= 1

    async def _ask_one_of(self, endpoints: list[str], request: CheckRequest) -> Verdict:
        asker = Asker(self._http())
        verdict = Verdict(Action.UNREACHABLE, "")
        for url in endpoints:
            verdict = await self._within_time(asker.ask(url, request), url)
            if verdict.action is not Action.UNREACHABLE:
                break
        return verdict

    async def _within_time(self, asking: Coroutine[Any, Any, Verdict], url: str) -> Verdict:
        # httpx bounds each wait for bytes, not their sum; connecting has its own bound, hence twice
        seconds = 2 * self._checks.ask_timeout / 1000
        try:
            return await asyncio.wait_for(asking, seconds)
        except TimeoutError:
            return Verdict(Action.UNKNOWN, f"{url}: no complete answer within {seconds} s")

    def _http(self) -> httpx.AsyncClient:
        if self._client is None:
            self._client = httpx.AsyncClient(
                timeout=self._checks.ask_timeout / 1000,
                limits=httpx.Limits(max_connections=None, max_keepalive_connections=100),
                follow_redirects=False,
                trust_env=False,
            )
        return self._client

    async def close(self) -> None:
        """Close the connections."""
        if self._client is not None:
            await self._client.aclose()
