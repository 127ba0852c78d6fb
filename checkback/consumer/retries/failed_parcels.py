"""What becomes of messages of which a listener has said *later*, and parcels that wait for their time."""

import heapq
import itertools
import logging
import threading
from collections.abc import Callable, Iterator
from time import monotonic

from checkback.consumer.offsets.work import Parcel
from checkback.consumer.settings import ConsumerSettings, Mode, Order

_LOGGER = logging.getLogger(__name__)
_SAY_AGAIN_SECONDS = 1.0


class Timers:
    """From any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._number = itertools.count()
        self._heap: list[tuple[float, int, Parcel]] = []

    def add(self, at: float, parcel: Parcel) -> None:
        """It is due at that time."""
        with self._lock:
            heapq.heappush(self._heap, (at, next(self._number), parcel))

    def due(self, now: float) -> Iterator[Parcel]:
        """Take those that are due, in the order of their times."""
        while True:
            with self._lock:
                if not self._heap or self._heap[0][0] > now:
                    return
                parcel = heapq.heappop(self._heap)[2]
            yield parcel

    def wait(self, now: float, most: float) -> float:
        """Seconds until the next is due, ``most`` at most."""
        with self._lock:
            return max(0.0, min(most, self._heap[0][0] - now)) if self._heap else most


class FailedParcels:
    """What becomes of a parcel of which the listener has said *later*."""

    def __init__(self, settings: ConsumerSettings, timers: Timers, send_back: Callable[[Parcel], None]) -> None:
        self._settings = settings
        self._timers = timers
        self._send_back = send_back
        self._given_up_said = 0.0

    def failed(self, parcel: Parcel) -> Parcel | None:
        """Gives what waited for it, where it is dropped."""
        settings = self._settings
        if settings.mode is Mode.BROADCASTING:
            return self._drop(parcel)
        in_vain = any(message.tries >= settings.max_reconsume_times for message in parcel.messages)
        if settings.order is Order.NONE or in_vain or parcel.reasons:
            self._send_back(parcel)
        else:
            parcel.work.count(retried=len(parcel.messages))
            parcel.failed_once_more()
            for one in parcel.work.apart(parcel):  # which message of a batch has failed it is not known
                parcel.work.rest(one)
                self._timers.add(monotonic() + settings.suspend, one)
        return None

    def not_sent(self, parcel: Parcel) -> None:
        """It could not be sent back, and is tried here again; that does not count."""
        self._timers.add(monotonic() + self._settings.retry_here, parcel)

    def _drop(self, parcel: Parcel) -> Parcel | None:
        now = monotonic()
        if now >= self._given_up_said:
            self._given_up_said = now + _SAY_AGAIN_SECONDS
            reason = "".join(f" ({why})" for why in parcel.reasons.values())
            _LOGGER.error("Broadcasting has no retries: %s is dropped%s", parcel.messages[0].id, reason)
        parcel.work.count(given_up=len(parcel.messages))
        return parcel.work.ended(parcel)
