"""Parked messages, for operators: what lies in ``cb.parked``, and the ops that decide about it."""

import logging
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any, NamedTuple, Self

from checkback.exceptions import ProtocolError
from checkback.kafka.topic_reading import own_topic, reading_consumer, records_to_end
from checkback.operations.operator_ops import OperatorOps
from checkback.wire import protocol
from checkback.wire.protocol import Action, HalfPosition, Topics
from checkback.wire.signed_records import SigningKey

_LOGGER = logging.getLogger(__name__)

_Place = tuple[HalfPosition, str]

IN_DOUBT_ACTIONS = (Action.COMMIT, Action.ROLLBACK)
"""What an operator may do about a transaction that is not decided."""


def parked_actions(*, undecided: bool, kept: bool) -> tuple[Action, ...]:
    """What is of use for a parked message: a decision, or checks again; one that was committed is delivered again."""
    if undecided:
        return (*IN_DOUBT_ACTIONS, Action.RESUME)
    return (Action.REDELIVER,) if kept else ()


class ParkedMessage(NamedTuple):
    """A record of ``cb.parked``."""

    transaction_id: str
    """As its producer says; another group's message may say the same."""
    group: str
    topic: str
    half: HalfPosition
    """Where the job has it: what an operator's op acts on."""
    reason: str
    key: bytes | None
    value: bytes | None
    time_ms: int
    """When it was parked, in ms since 1970."""
    kept: bool = True
    """Whether the job has it as well; False for one that was too large to be kept."""
    became: str = ""
    """What became of it since: committed, rolled back, resumed, or abandoned; empty while it waits for an operator."""
    answer: str = ""
    """The last answer to its checks, with what the service said; empty: none, or an earlier version parked it."""

    @property
    def undecided(self) -> bool:
        """Whether an operator can decide it; False for one that was committed, but could not be delivered."""
        return not self.reason.startswith(protocol.UNDELIVERABLE)


class ParkedMessages:
    """Reads ``cb.parked`` and writes ops with ``cb-source=operator``; use it as a context manager.

    The job judges these ops like all others: one about a message that is no longer parked changes nothing and is
    found in ``cb.rejected``.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        topics: Topics | None = None,
        options: Mapping[str, Any] | None = None,
        signing: SigningKey | None = None,
    ) -> None:
        self._topics = topics or Topics()
        self._bootstrap_servers = bootstrap_servers
        self._options = options
        self._signing = signing
        self._consumer = reading_consumer(bootstrap_servers, options=options)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._consumer.close()

    def read(self, *, ended: bool = False) -> list[ParkedMessage]:
        """Messages that wait for an operator, in their order; parked twice, one is there once, as the last time.

        What a message is, its place says, not its id: the messages of one half that was not kept, their ids as well.

        ``ended``: also those of which the job has written that they wait no longer.
        """
        topic = own_topic(self._consumer, self._topics.parked)
        found: dict[_Place, ParkedMessage] = {}
        for record in records_to_end(self._consumer, topic):
            try:
                message = _merged(found, parked_record(record))
            except (KeyError, AttributeError, UnicodeDecodeError, ProtocolError) as error:
                _LOGGER.warning("Skipped offset %s of %s, which the job did not write: %r", record.offset, topic, error)
                continue
            place = (message.half, message.transaction_id)
            found.pop(place, None)
            found[place] = message
        return [message for message in found.values() if ended or not message.became]

    def end(self, messages: Iterable[ParkedMessage], action: Action, remark: str = "") -> None:
        """Write ops for these messages, and wait until Kafka has them.

        Raises:
            OperatorError: Kafka did not take one; those before it are written.
            KafkaUnreachableError: no Kafka answers.
        """
        with OperatorOps(self._bootstrap_servers, self._topics, self._options, self._signing) as ops:
            ops.write(((message.transaction_id, message.group, message.half) for message in messages), action, remark)


class ParkedEnd(NamedTuple):
    """A record of ``cb.parked`` that says what became of an earlier one."""

    half: HalfPosition
    transaction_id: str
    became: str


def parked_record(record: Any) -> ParkedMessage | ParkedEnd:
    """Read a record of ``cb.parked``.

    Raises:
        KeyError, AttributeError, UnicodeDecodeError, ProtocolError: the job did not write it.
    """
    headers = dict(reversed(record.headers))
    half = HalfPosition.parse(headers[protocol.HALF].decode())
    became = headers.get(protocol.ENDED)
    if became is not None:
        return ParkedEnd(half, headers[protocol.ID].decode(), became.decode())
    undeliverable = headers[protocol.REASON].startswith(protocol.UNDELIVERABLE.encode())
    return ParkedMessage(
        kept=not undeliverable or protocol.FROM in headers,
        transaction_id=headers[protocol.ID].decode(),
        group=headers[protocol.GROUP].decode(),
        topic=headers[protocol.TOPIC].decode(),
        half=half,
        reason=headers[protocol.REASON].decode(errors="replace"),
        key=record.key,
        value=record.value,
        time_ms=record.timestamp,
        answer=headers.get(protocol.ANSWER, b"").decode(errors="replace"),
    )


def _merged(found: Mapping[_Place, ParkedMessage], said: ParkedMessage | ParkedEnd) -> ParkedMessage:
    if isinstance(said, ParkedMessage):
        return said
    return found[said.half, said.transaction_id]._replace(became=said.became)
