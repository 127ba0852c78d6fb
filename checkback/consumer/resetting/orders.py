"""How a running consumer hears that it is to go on at other offsets, and says that it does."""

import logging
import os
import platform
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import CancelledError, Future
from typing import Protocol

from checkback.consumer.listener import ReceivedMessage, TopicPartition
from checkback.consumer.resetting.control import ControlRecords, ResetDone, ResetOrder, is_order
from checkback.exceptions import CheckbackError, ProtocolError

_LOGGER = logging.getLogger(__name__)
_READ_SECONDS = 0.5
_RESET_SECONDS = 60.0
_AGAIN_SECONDS = 5.0
_LEAVE_SECONDS = 5.0
_NO_TOPIC_SECONDS = 60.0
_OLD_MS = 10 * 60_000
"""An order is repeated each second for as long as somebody waits for it. One of that age nobody waits for."""


class Orders:
    """The orders for one group, as one of its consumers hears them. No Kafka, no clock.

    An order is heard again and again, until it is carried out for each partition. A partition that this consumer has
    set it does not set again, though it may have gone and come back: it says again that it did.
    """

    def __init__(self, group: str, consumer: str) -> None:
        self._group = group
        self._consumer = consumer
        self._done: dict[str, dict[TopicPartition, ResetDone]] = {}

    def heard(self, records: Iterable[ReceivedMessage], now_ms: int) -> list[ResetOrder]:
        """The orders among new records of the control topic that hold: of each group and topic the last word counts."""
        last: dict[bytes, ReceivedMessage] = {}
        for record in records:
            if record.key is not None and is_order(record.key):
                last[record.key] = record
        found = []
        for record in last.values():
            if record.value is None:
                continue
            try:
                order = ResetOrder.parse(record.value)
            except ProtocolError as error:
                _LOGGER.warning("Passed over offset %s of %s: %s", record.offset, record.topic, error)
                continue
            if order.group != self._group:
                continue
            if now_ms - record.timestamp_ms > _OLD_MS:
                _LOGGER.warning("Passed over the reset %s of %s, which is too old", order.id, order.topic)
                continue
            found.append(order)
        return found

    def left_to_do(self, order: ResetOrder) -> dict[TopicPartition, int]:
        """Partitions that this consumer has not set, with their offsets."""
        done = self._done.get(order.id, {})
        return {one: offset for one, offset in order.by_partition().items() if one not in done}

    def done(self, order: ResetOrder, found: Mapping[TopicPartition, tuple[int, int]]) -> None:
        """Partitions were set: offsets before and after."""
        self._done = {order.id: self._done.get(order.id, {}), **self._of_other_topics(order)}
        for partition, (before, after) in found.items():
            done = ResetDone(order.id, partition.partition, before, after, self._consumer)
            self._done[order.id][partition] = done

    def said(self, order: ResetOrder) -> dict[bytes, bytes | None]:
        """What this consumer has to say to the order: what it did of what is still waited for."""
        done = self._done.get(order.id, {})
        return {done[one].key: done[one].value for one in order.by_partition() if one in done}

    def _of_other_topics(self, order: ResetOrder) -> dict[str, dict[TopicPartition, ResetDone]]:
        """An order before for the same topic is over."""
        return {
            name: done
            for name, done in self._done.items()
            if name != order.id and all(one.topic != order.topic for one in done)
        }


class Control(ControlRecords, Protocol):
    """A :class:`~checkback.consumer.resetting.control_topic.ControlTopic`."""

    def go_to_end(self) -> bool:
        """Begin behind the last record; False when there is no such topic."""

    def close(self) -> None:
        """Let go of Kafka."""


class Resettable(Protocol):
    """A consumer that can be told to go on elsewhere: :class:`~checkback.consumer.PushConsumer`."""

    def reset(self, offsets: Mapping[TopicPartition, int]) -> "Future[Mapping[TopicPartition, tuple[int, int]]]":
        """Drop what is held of these partitions, store the offsets, and read on from there.

        Gives offsets before and after of those that it has.
        """


class ResetListener:
    """Listens, in a thread of its own, for as long as a consumer runs. What fails is said in the log, and tried again.

    1. Read the control topic, from where it ends when the consumer starts.
    2. An order for the group: have the consumer set those of the partitions that it has and has not set for this order.
    3. Say so in the control topic. Whoever waits for the order repeats it until all partitions have been reported, so
       nothing depends on a record that is lost, or on who has a partition at what moment.

    Args:
        group: the consumer's.
        control: makes the control topic's reader and writer; called in the thread, again after an error.
    """

    def __init__(self, group: str, control: Callable[[], Control]) -> None:
        self._control = control
        self._orders = Orders(group, f"{platform.node()}, process {os.getpid()}")
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, consumer: Resettable) -> None:
        """Begin to listen."""
        self._thread = threading.Thread(target=self._run, args=(consumer,), name="checkback-control", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Listen no longer."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(_LEAVE_SECONDS)

    def _run(self, consumer: Resettable) -> None:
        while not self._stopping.is_set():
            try:
                self._stopping.wait(self._listen(consumer))
            except CheckbackError as error:
                _LOGGER.warning("This consumer cannot hear of resets now: %s", error)
                self._stopping.wait(_AGAIN_SECONDS)

    def _listen(self, consumer: Resettable) -> float:
        """Until stopped, or gives after how many seconds to try again."""
        control = self._control()
        try:
            if not control.go_to_end():
                _LOGGER.info(
                    "There is no control topic, so this consumer hears of no resets: run 'checkback topics create'"
                )
                return _NO_TOPIC_SECONDS
            while not self._stopping.is_set():
                for order in self._orders.heard(control.read(_READ_SECONDS), time.time_ns() // 1_000_000):
                    self._carry_out(order, consumer)
                    control.write(self._orders.said(order))
            return 0.0
        finally:
            control.close()

    def _carry_out(self, order: ResetOrder, consumer: Resettable) -> None:
        wanted = self._orders.left_to_do(order)
        if not wanted:
            return
        try:
            found = consumer.reset(wanted).result(_RESET_SECONDS)
        except (CheckbackError, TimeoutError, CancelledError) as error:
            _LOGGER.warning("The reset %s of %s was not carried out: %r", order.id, order.topic, error)
            return
        self._orders.done(order, found)
        for partition, (before, after) in found.items():
            _LOGGER.warning("%s was set from offset %s to %s, by order %s", partition, before, after, order.id)
