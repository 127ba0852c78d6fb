"""What a producer does otherwise when it delivers directly."""

import logging
from collections.abc import Callable, Mapping, Sequence
from time import monotonic
from typing import Any, NamedTuple

from checkback.kafka.librdkafka.lanes import Lane, LanePlace
from checkback.kafka.librdkafka.settling import Settler
from checkback.kafka.transport import OutgoingRecord, TellingTransport
from checkback.listener import HalfMessage
from checkback.producing.direct.book import Book
from checkback.producing.direct.delivering import Delivering, Links
from checkback.producing.direct.entries import LaneHalf, lane_half, order_keys
from checkback.producing.ops import OpContent, op_record
from checkback.wire.lanes import LaneFact, of_lane, transactional_id
from checkback.wire.protocol import Action, HalfPosition, Headers, Message, Topics

_LOGGER = logging.getLogger(__name__)
_JOIN_SECONDS = 1.0
LANES = 2
"""At a time, of a producer. While Kafka writes the markers of the one's transaction, the other begins its own."""


class ProducerPlace(NamedTuple):
    """The Kafka of a producer, and the producer's own settings."""

    bootstrap_servers: str
    options: Mapping[str, Any]
    topics: Topics
    group: str


class ByLane:
    """A producer's lanes, with all that waits for them; see :class:`~checkback.producing.delivery.DirectDelivery`.

    Raises:
        ConfigurationError: Kafka does not allow lanes; the message says what to allow.
        KafkaUnreachableError: Kafka is away.
    """

    def __init__(self, transport: TellingTransport, reached: ProducerPlace) -> None:
        self._transport = transport
        self._reached = reached
        self._book = Book(LANES)
        links = Links(transport, self._lane, self._settler, reached.group, self._op)
        self._delivering = [Delivering(self._book, links, self._book, slot) for slot in range(LANES)]

    def write(
        self,
        wire: Headers,
        transaction_id: str,
        messages: Sequence[Message],
        write_half: Callable[[Headers], HalfPosition],
        *,
        numbered: bool = False,
    ) -> tuple[HalfPosition, str]:
        """See :class:`~checkback.producing.delivery.DirectDelivery`."""
        lanes = [one.lane for one in self._delivering]
        fit = [slot for slot, lane in enumerate(lanes) if lane]
        if not fit:  # all were lost: the job delivers until there is another
            return write_half(wire), ""
        slot = self._book.slot(order_keys(messages), fit)
        lane = lanes[slot]
        entry = lane_half(transaction_id, lane, messages, numbered=numbered, slot=slot)
        self._book.add(entry)
        try:
            place = write_half(of_lane(wire, lane))
        except BaseException:
            self._book.remove(entry)
            raise
        self._book.written(entry, place)
        return place, lane

    def end(
        self, message: HalfMessage, action: Action, remark: str, lost: Callable[[BaseException], None]
    ) -> LaneHalf | None:
        """See :class:`~checkback.producing.delivery.DirectDelivery`."""
        entry: LaneHalf | None = None
        if action is Action.COMMIT:
            entry, by_job = self._book.commit(message, remark)
        else:
            by_job = self._book.leave(message)
        if by_job:
            settled = action is not Action.UNKNOWN and any(one.owns(message.lane) for one in self._delivering)
            verdict = OpContent(action, remark, LaneFact.SETTLED if settled else None)
            record = op_record(
                self._reached.topics.op, self._reached.group, message.transaction_id, message.half, verdict
            )
            self._transport.write_op(record, lost)
        return entry

    def flush(self, seconds: float) -> None:
        """See :class:`~checkback.producing.delivery.DirectDelivery`."""
        self._book.drained(seconds)

    def close(self, seconds: float) -> None:
        """See :class:`~checkback.producing.delivery.DirectDelivery`."""
        joining = min(_JOIN_SECONDS, seconds / 4)
        self._book.drained(seconds - joining)
        for one in self._delivering:
            one.stop()
        until = monotonic() + joining
        for one in self._delivering:
            one.close(max(0.0, until - monotonic()))
        for entry in self._book.flying():
            _LOGGER.warning(
                "The producer was closed before Kafka had said whether transaction %s was delivered; the check finds "
                "out, and delivers it if it was not",
                entry.transaction_id,
            )

    def _lane(self, lane: str) -> Lane:
        reached = self._reached
        name = transactional_id(reached.group, lane)
        return Lane(LanePlace(reached.bootstrap_servers, reached.topics, name, reached.options))

    def _settler(self) -> Settler:
        reached = self._reached
        return Settler(reached.bootstrap_servers, reached.topics, reached.options)

    def _op(self, entry: LaneHalf, verdict: OpContent) -> OutgoingRecord:
        return op_record(self._reached.topics.op, self._reached.group, entry.transaction_id, entry.place, verdict)
