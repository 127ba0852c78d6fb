"""A transport that keeps what a producer writes, so that a unit test needs no Kafka."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from threading import Lock
from time import time_ns

from checkback.exceptions import ConfigurationError, HalfMessageError
from checkback.kafka.transport import Appended, Lost, OutgoingRecord
from checkback.wire import protocol
from checkback.wire.message_json import unpack
from checkback.wire.protocol import Action, HalfPosition, Headers, Message


@dataclass
class RecordedTransaction:
    """A half message that a producer has written, and what it has said of it since."""

    half: HalfPosition
    transaction_id: str
    group: str
    messages: tuple[Message, ...]
    """What consumers get if it is committed."""
    headers: Headers
    """All headers of the half message, Checkback's own among them."""
    several: bool = False
    """Made by ``begin()``: one half message with all of them."""
    action: Action | None = None
    """The first op; None while there is none."""
    remark: str = ""


class RecordingTransport:
    """Give it to ``TransactionProducer(..., transport=...)``. It takes what Kafka would take, at once.

    Beside a real Kafka it lacks: limits of size that are a topic's, time-outs, partitions that grow, and whatever the
    job does. Our own tests hold it against both real transports.

    ``refuse_halves``: raise this for each half message, as when Kafka is away. ``lose_ops``: drop ops, as when the
    process dies before they are written; then the check decides, see :func:`checkback.testing.ask`.
    ``missing_topics``: say that Kafka does not have these.
    """

    def __init__(
        self,
        partitions: int = 1,
        *,
        refuse_halves: HalfMessageError | None = None,
        lose_ops: bool = False,
        missing_topics: Collection[str] = (),
    ) -> None:
        if partitions < 1:
            raise ConfigurationError("A topic has at least one partition.")
        self.missing_topics = missing_topics
        self.refuse_halves = refuse_halves
        self.lose_ops = lose_ops
        self.transactions: list[RecordedTransaction] = []
        """In the order in which their half messages were written."""
        self.closed = False
        self._partitions = partitions
        self._ends = [0] * partitions
        self._by_half: dict[str, RecordedTransaction] = {}
        self._lock = Lock()

    @property
    def committed(self) -> list[Message]:
        """What the job would deliver by now."""
        return [message for one in self.transactions if one.action is Action.COMMIT for message in one.messages]

    def partitions(self, half_topic: str, op_topic: str) -> int:  # noqa: ARG002  (there is one answer)
        """See :class:`~checkback.kafka.transport.Transport`."""
        return self._partitions

    def missing(self, topics: Sequence[str]) -> list[str]:
        """See :class:`~checkback.kafka.transport.Transport`."""
        return [topic for topic in topics if topic in self.missing_topics]

    def write_half(self, record: OutgoingRecord) -> Appended:
        """See :class:`~checkback.kafka.transport.Transport`."""
        if self.refuse_halves is not None:
            raise self.refuse_halves
        with self._lock:
            offset = self._ends[record.partition]
            self._ends[record.partition] += 1
            made = _transaction(record, HalfPosition(record.partition, offset))
            self.transactions.append(made)
            self._by_half[str(made.half)] = made
        return Appended(offset, time_ns() // 1_000_000)

    def write_op(self, record: OutgoingRecord, lost: Lost) -> None:
        """See :class:`~checkback.kafka.transport.Transport`."""
        if self.lose_ops:
            lost(ConnectionError("ops are lost in this test"))
            return
        own = dict(record.headers)
        decided = self._by_half[_text(own[protocol.HALF])]
        if decided.action is None:  # the first decision wins
            decided.action = Action(_text(own[protocol.ACTION]))
            decided.remark = (record.value or b"").decode(errors="replace")

    def flush(self, seconds: float) -> None:
        """See :class:`~checkback.kafka.transport.Transport`."""

    def close(self, seconds: float) -> None:  # noqa: ARG002  (nothing waits)
        """See :class:`~checkback.kafka.transport.Transport`."""
        self.closed = True


def _transaction(record: OutgoingRecord, half: HalfPosition) -> RecordedTransaction:
    own = {name: _text(value) for name, value in record.headers if name.startswith(protocol.RESERVED_PREFIX)}
    several = protocol.MESSAGES in own
    return RecordedTransaction(
        half=half,
        transaction_id=own[protocol.ID],
        group=own[protocol.GROUP],
        messages=_equal_to_given(unpack(record.value)) if several else (_message(record, own),),
        headers=tuple(record.headers),
        several=several,
        action=Action.COMMIT if protocol.ACTION in own else None,  # sent without a local transaction
    )


def _equal_to_given(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    return tuple(message._replace(headers=message.headers or ()) for message in messages)


def _message(record: OutgoingRecord, own: dict[str, str]) -> Message:
    application = [header for header in record.headers if not header[0].startswith(protocol.RESERVED_PREFIX)]
    partition = int(own[protocol.PARTITION]) if protocol.PARTITION in own else None
    # () is what a Message has that was given none: the two are to be equal
    return Message(own[protocol.TOPIC], record.value, record.key, application or (), partition)


def _text(value: bytes | None) -> str:
    return (value or b"").decode()
