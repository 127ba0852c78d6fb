"""The push consumer: hands messages to a listener, and sees to offsets, retries and dead letters."""

import asyncio
import contextlib
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from types import TracebackType
from typing import Any, Generic, Protocol, Self, TypeVar

from checkback.consumer.clients.group_client import Clients
from checkback.consumer.engine import Engine, Given
from checkback.consumer.judging import Judging, asynchronous
from checkback.consumer.listener import AsyncBatchListener, AsyncListener, BatchListener, Listener, TopicPartition
from checkback.consumer.metrics import Figures
from checkback.consumer.offsets.partitions import Subscription
from checkback.consumer.resetting.control_topic import ControlTopic
from checkback.consumer.resetting.orders import ResetListener
from checkback.consumer.settings import ConsumerSettings
from checkback.consumer.tags import TagExpression
from checkback.consumer.workers import LoopWorkers, ThreadWorkers
from checkback.exceptions import ConfigurationError
from checkback.forking import in_child_of, refuse_in_child
from checkback.greenlets import refuse_greenlets
from checkback.wire.protocol import Topics, is_topic_name

Wanted = Mapping[str, str] | Sequence[str] | str
"""Topics to read: one, several, or each with a tag expression (``{"shop.orders": "paid || refunded"}``)."""

_CLOSE_SECONDS = 30.0


class Extension(Protocol):
    """Something that lives as long as a consumer does: ``start`` after it, ``stop`` before it."""

    def start(self, consumer: "PushConsumer | AsyncPushConsumer") -> None:
        """The consumer has been started."""

    def stop(self) -> None:
        """The consumer is about to stop."""


_AnyListener = TypeVar("_AnyListener", bound=Listener | BatchListener | AsyncListener | AsyncBatchListener)


class _Consumer(Generic[_AnyListener]):
    """What both consumers have in common."""

    def __init__(  # noqa: PLR0913  (but for the first four by their names)
        self,
        bootstrap_servers: str,
        group: str,
        listener: _AnyListener,
        subscription: Wanted,
        *,
        settings: ConsumerSettings | None = None,
        topics: Topics | None = None,
        kafka_options: Mapping[str, Any] | None = None,
        extensions: Sequence[Extension] = (),
        clients: Clients | None = None,
    ) -> None:
        self._refuse(listener)
        given = _given(bootstrap_servers, group, subscription, settings, topics, kafka_options, clients)
        self.group = given.group
        self.settings = given.settings
        self._engine = Engine(given)
        self._judging = Judging(listener, self._engine.ended, several=given.settings.batch is not None)
        self._extensions = [*extensions, *_listens_to_resets(given)]
        self._started = self._closed = False
        self._process = os.getpid()

    def _refuse(self, listener: _AnyListener) -> None:
        """Raises ConfigurationError where the listener is for the other kind of consumer."""

    def reset(self, offsets: Mapping[TopicPartition, int]) -> "Future[Mapping[TopicPartition, tuple[int, int]]]":
        """Set partitions to other offsets while it runs: what is held is dropped, the offset stored, and read on.

        The answer, a future, has offsets before and after (:class:`ResetPlace`), without partitions that this consumer
        does not have. It may be called from any thread but the listener's own. Where one of the offsets lies outside of
        what its partition has, nothing is set, and the future has a ConfigurationError.

        Raises:
            ConfigurationError: it has not been started, or Kafka can have no such partition or offset.
        """
        self._refuse_in_child()
        return self._engine.reset(offsets)

    def figures(self) -> Figures:
        """What it has done, and how far it is behind."""
        self._refuse_in_child()
        return self._engine.figures()

    def raise_if_dead(self) -> None:
        """Raise what ended it, if anything did.

        Raises:
            OffsetGoneError: the stored offset has no message, and the setting is to stop.
            ConsumerError: it failed; another one continues.
            ConfigurationError: Kafka does not allow it something, or does not take its settings.
        """
        self._engine.raise_if_dead()

    def _begin(self) -> None:
        if self._started:
            raise ConfigurationError("A consumer can be started only once: make another one.")
        self._started, self._process = True, os.getpid()

    def _refuse_in_child(self) -> None:
        if self._started:
            refuse_in_child(self._process, type(self).__name__)

    def _extend(self) -> None:
        try:
            for extension in self._extensions:
                extension.start(self)  # type: ignore[arg-type]  # it is one of the two
        except BaseException:
            self._stop(_CLOSE_SECONDS)
            raise

    def _stop(self, seconds: float) -> None:
        if not self._started or self._closed or in_child_of(self._process):
            return
        self._closed = True
        with contextlib.ExitStack() as stack:  # each of them, whatever the one before raises; the engine last
            stack.callback(self._engine.stop, seconds)
            for extension in reversed(self._extensions):
                stack.callback(extension.stop)


class PushConsumer(_Consumer[Listener | BatchListener]):
    """Reads topics as one of a group, and calls a listener from threads.

    ``read_committed``, at least once: what a listener is done with is stored, in any order (:class:`OffsetWindow`); a
    crash or a rebalance repeats what was unfinished. A message that fails is tried again later, and in the end is a
    dead letter.

    Args:
        bootstrap_servers: Kafka's ``host:port``, several with commas.
        group: the consumer group: each message goes to one of its members.
        listener: gets a message and returns a :class:`ConsumeResult`; an exception is *later*. With ``settings.batch``
            it gets a list. Called from ``settings.concurrency`` threads at once.
        subscription: topics, perhaps with tag expressions.
        settings: all else.
        topics: Checkback's topics, when the job runs under another prefix than ``cb.``.
        kafka_options: further settings of its Kafka client (security and the like), under librdkafka's names.
        extensions: what is started and stopped with it.
        clients: makes its Kafka clients instead of its own; for tests.

    Raises:
        ConfigurationError: an argument makes no sense.
    """

    def _refuse(self, listener: Listener | BatchListener) -> None:
        if asynchronous(listener):
            raise ConfigurationError("The listener is a coroutine function: that is for AsyncPushConsumer.")

    def start(self) -> Self:
        """Connect, join the group, and begin to call the listener.

        Raises:
            ConfigurationError: Kafka does not answer, lacks a topic that is needed, or does not allow one.
        """
        self._begin()
        workers = ThreadWorkers(self.settings.concurrency, self._judging.call)
        try:
            self._engine.start(workers)
        except BaseException:
            workers.stop(0)
            raise
        self._extend()
        return self

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until it has ended, by :meth:`close` in another thread or by itself; ``False``: not yet.

        Raises:
            CheckbackError: what ended it, see :meth:`raise_if_dead`.
        """
        self._refuse_in_child()
        ended = self._engine.wait(seconds)
        self.raise_if_dead()
        return ended

    def close(self, seconds: float = _CLOSE_SECONDS) -> None:
        """Let what is in hand end (``settings.finish_wait``), store, leave the group. Harmless when called again."""
        self._stop(seconds)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


class AsyncPushConsumer(_Consumer[AsyncListener | AsyncBatchListener]):
    """As :class:`PushConsumer`, with a listener that is a coroutine function, called on the loop that starts it.

    One that is an ordinary function is called there, too, and holds the loop up while it works.
    """

    async def start(self) -> Self:
        """As :meth:`PushConsumer.start`. Where it is cancelled, it has ended again before the cancellation goes on."""
        self._begin()
        workers = LoopWorkers(self.settings.concurrency, self._judging.wait_for)
        starting = asyncio.ensure_future(asyncio.to_thread(self._start, workers))
        try:
            await asyncio.shield(starting)
        except asyncio.CancelledError:
            # its thread cannot be cancelled, and a member that nobody holds would go on for ever
            self._engine.stop_soon()
            self._ending = asyncio.ensure_future(self._end_after(starting))
            await asyncio.shield(self._ending)
            raise
        return self

    def _start(self, workers: LoopWorkers) -> None:
        self._engine.start(workers)
        self._extend()

    async def _end_after(self, starting: "asyncio.Future[None]") -> None:
        await asyncio.wait([starting])
        if starting.exception() is None:
            await self.close()

    async def wait(self, seconds: float | None = None) -> bool:
        """As :meth:`PushConsumer.wait`."""
        self._refuse_in_child()
        ended = await asyncio.to_thread(self._engine.wait, seconds)
        self.raise_if_dead()
        return ended

    async def close(self, seconds: float = _CLOSE_SECONDS) -> None:
        """As :meth:`PushConsumer.close`."""
        await asyncio.to_thread(self._stop, seconds)

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self.close()


def _listens_to_resets(given: Given) -> list[Extension]:
    """What hears of ``checkback offsets reset``; clients that are somebody's own have nothing to listen with."""
    if not (given.clustering and given.settings.hear_resets and given.clients is None):
        return []
    place = (given.topics.control, given.bootstrap_servers, given.kafka_options)
    return [ResetListener(given.group, lambda: ControlTopic(*place))]


def _given(
    bootstrap_servers: str,
    group: str,
    wanted: Wanted,
    settings: ConsumerSettings | None,
    topics: Topics | None,
    kafka_options: Mapping[str, Any] | None,
    clients: Clients | None,
) -> Given:
    refuse_greenlets("A consumer", "the waits of its Kafka client block every greenlet.")
    if not group or not isinstance(group, str):
        raise ConfigurationError(f"A consumer needs the name of its group, not {group!r}.")
    settings, topics = settings or ConsumerSettings(), topics or Topics()
    if not isinstance(settings, ConsumerSettings):
        raise ConfigurationError(f"settings are ConsumerSettings, not {type(settings).__name__}.")
    options = dict(kafka_options or {})
    given = Given(bootstrap_servers, group, Subscription(_topics(wanted)), settings, topics, options, clients)
    if not given.clustering:
        return given
    return replace(given, subscription=Subscription(given.subscription.topics, given.own_topics.retry))


def _topics(wanted: Wanted) -> dict[str, TagExpression]:
    if isinstance(wanted, str):
        wanted = [wanted]
    if not isinstance(wanted, Mapping):
        wanted = dict.fromkeys(wanted, "*")
    if not wanted or not all(isinstance(name, str) and name for name in wanted):
        raise ConfigurationError("A consumer needs a topic to read, or several.")
    for name in wanted:
        if not is_topic_name(name):
            raise ConfigurationError(
                f"{name!r} is not a topic's name (a-z A-Z 0-9 . _ -). There is no subscription by a pattern: name each."
            )
    return {name: TagExpression.parse(expression) for name, expression in wanted.items()}
