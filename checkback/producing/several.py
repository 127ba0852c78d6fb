"""Several messages that one local transaction decides."""

from collections.abc import Sequence
from types import TracebackType
from typing import Any, Protocol, Self

from checkback.exceptions import ProtocolError
from checkback.listener import HalfMessage, TransactionSendResult
from checkback.producing.arguments import message_of
from checkback.producing.scope import End, TransactionScope
from checkback.wire.protocol import Message, TransactionOptions


class SendsSeveral(Protocol):
    """What this needs of a producer; see :class:`~checkback.TransactionProducer`."""

    @property
    def end(self) -> End:
        """Ends it."""

    def prepare_several(self, messages: Sequence[Message], *, options: TransactionOptions | None = None) -> HalfMessage:
        """Write the half message."""

    def send_several_in_transaction(
        self,
        messages: Sequence[Message],
        *,
        arg: Any = None,
        options: TransactionOptions | None = None,
        wait: bool = False,
    ) -> TransactionSendResult:
        """Do all of it."""


class Transaction:
    """Several messages, to several topics, that one local transaction decides; made by ``TransactionProducer.begin``.

    Messages of one topic and one key are delivered in the order in which they were added.
    """

    def __init__(self, producer: SendsSeveral, options: TransactionOptions | None = None) -> None:
        self._producer = producer
        self._options = options
        self._messages: list[Message] = []
        self._scope: TransactionScope | None = None

    def add(self, message: Message) -> Self:
        """Add a message. Nothing is written yet."""
        self._messages.append(message_of(message))
        return self

    def __enter__(self) -> TransactionScope:
        """Write the half message; the block is the local transaction."""
        if self._scope is not None:
            raise ProtocolError("This transaction has been begun before: begin() makes a new one.")
        self._scope = TransactionScope(self.prepare, self._producer.end)
        return self._scope.__enter__()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> bool:
        if self._scope is None:
            raise ProtocolError("This transaction has not been begun.")
        return self._scope.__exit__(kind, error, at)

    def prepare(self) -> HalfMessage:
        """Write the half message; ``producer.commit`` or ``producer.rollback`` ends the transaction."""
        return self._producer.prepare_several(self._messages, options=self._options)

    def send(self, *, arg: Any = None, wait: bool = False) -> TransactionSendResult:
        """Write the half message, run the listener's local transaction, write the op."""
        return self._producer.send_several_in_transaction(self._messages, arg=arg, options=self._options, wait=wait)
