"""Half messages, their ends, and messages without a transaction: what a gateway does, by whichever protocol."""

import asyncio
import hashlib
import os
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple, Protocol, TypeVar
from zlib import crc32

from access.credentials import Caller
from checkback.exceptions import GroupOverLimitError, HalfMessageError, ProtocolError
from checkback.kafka.send_limits import SendLimits
from checkback.kafka.signing import refuse_other_time, signed
from checkback.kafka.transport import ANY_PARTITION, Appended, OutgoingRecord
from checkback.listener import LocalTransactionState
from checkback.producing.arguments import message_of
from checkback.producing.ops import OpContent, op_record
from checkback.wire.limits import (
    MAX_HEADERS,
    MESSAGE_BYTES,
    content_bytes,
    refuse_several_too_large,
    refuse_too_large,
)
from checkback.wire.message_json import pack
from checkback.wire.protocol import (
    ID,
    Action,
    HalfPosition,
    Message,
    Topics,
    TransactionOptions,
    decided,
    half_headers,
    lawful_names,
    lawful_topic,
    refuse_own_topic,
)
from gateway.accounts import Accounts
from gateway.asking import Asking, ClientAnswer, Heard
from gateway.checking import NAMED
from gateway.load import converted
from gateway.once import Once
from gateway.refusals import GatewayError, RefusalReason
from gateway.tickets import Ticket, TicketSeal

T = TypeVar("T")
Write = Callable[[OutgoingRecord], Awaitable[Appended]]
_IN_A_ROW = 200
"""Messages of one call that are looked at before other calls have a turn."""


class Places(Protocol):
    """What is known of topics."""

    async def half_partitions(self) -> int:
        """How many partitions the half topic has."""

    async def look(self, topic: str) -> None:
        """Raises GatewayError where Kafka does not have a topic."""


class ActingAs(NamedTuple):
    """Who sends."""

    caller: Caller
    group: str
    """The producer group."""


class GatewayTransactions:
    """Of one process; everything that is to last is in Kafka and in the tickets."""

    def __init__(
        self, topics: Topics, write: Write, places: Places, accounts: Accounts, asking: Asking, seal: TicketSeal
    ) -> None:
        self._topics = topics
        self._write = write
        self._places = places
        self._accounts = accounts
        self._asking = asking
        self._seal = seal
        self.patience_seconds = 3.0
        """So long clients wait. What is being written then goes on, and is the same when it is asked for again."""
        self.most_delay_ms = 7 * 86_400_000
        """``transactions.delay_max``: the job rejects what is to be delivered later."""
        self.limits = SendLimits(None, topics)
        self._begun: Once[str] = Once()
        self._sent: Once[str] = Once()

    async def begin(
        self, sender: ActingAs, messages: Sequence[Message], options: TransactionOptions | None = None, once: str = ""
    ) -> str:
        """Write messages as one half message; gives its transaction id, which :meth:`end` takes.

        ``once`` is the client's own name for it: given again within minutes, by the same sender, it is the same
        transaction.

        Raises:
            GatewayError: nothing was written; or, of refusal KAFKA, nobody knows.
        """
        until = await self._refuse(sender, messages, options.deliver_at_ms if options else None)
        transaction_id = _id_of(sender, once)

        async def write() -> str:
            half = await self._write_half(sender, transaction_id, messages, options)
            return self._seal.seal(Ticket(half, transaction_id, sender.group))

        return await self.in_time(self._begun.begun(transaction_id, write), until)

    async def end(self, caller: Caller, ticket: str, state: LocalTransactionState, remark: str = "") -> None:
        """Say what became of a transaction; returns when Kafka has it. Who is just asking for it hears it, too.

        Of a half message that is there twice it is an answer alone: which of the two counts is decided by who asks.

        Raises:
            GatewayError: the ticket is not one, or another account's; or Kafka has not taken it.
        """
        half, transaction_id, group = opened = self._seal.open(ticket)
        self._accounts.refuse_foreign(caller, group)
        heard = self._asking.answer(opened, ClientAnswer(state, remark))
        if heard is Heard.AS_WORD or (heard is Heard.AS_END and state is LocalTransactionState.UNKNOWN):
            return
        # also when it was an answer: the check service may be gone before it has heard it
        signing = self._accounts.signing(caller, group)
        content = OpContent(Action(state), remark)
        record = op_record(self._topics.op, group, transaction_id, half, content)
        written = self._write(record if signing is None else signed(record, signing))
        await self.in_time(asyncio.ensure_future(written))

    async def send(self, sender: ActingAs, message: Message, once: str = "", deliver_at_ms: int | None = None) -> str:
        """Write a message without a transaction; gives its id.

        It goes to its topic at once, or the job delivers it at a time, ms since 1970. Raises as :meth:`begin`.
        """
        until = await self._refuse(sender, [message], deliver_at_ms)
        name = _id_of(sender, once)

        async def write() -> str:
            if deliver_at_ms is not None:
                options = TransactionOptions(deliver_at_ms=deliver_at_ms)
                await self._write_half(sender, name, [message], options, is_decided=True)
                return name
            partition = ANY_PARTITION if message.partition is None else message.partition
            headers = [(ID, name.encode()), *message.headers]
            await self._write(OutgoingRecord(message.topic, partition, message.key, message.value, headers))
            return name

        return await self.in_time(self._sent.begun(name, write), until)

    async def in_time(self, work: "asyncio.Future[T]", until: float | None = None) -> T:
        """Wait for it until that time of the loop, by default for as long as clients do; it goes on after that.

        Raises:
            GatewayError: Kafka has not acknowledged it in time.
        """
        work.add_done_callback(_noted)
        timeout = self.patience_seconds if until is None else max(0.0, until - asyncio.get_running_loop().time())
        done, _ = await asyncio.wait((work,), timeout=timeout)
        if not done:
            said = f"Kafka has not acknowledged it within {self.patience_seconds:g} s, and may have it."
            raise GatewayError(RefusalReason.KAFKA, said)
        return work.result()

    async def _refuse(self, sender: ActingAs, messages: Sequence[Message], deliver_at_ms: int | None) -> float:
        """Before anything is written; until which time of the loop the client waits."""
        until = asyncio.get_running_loop().time() + self.patience_seconds
        self._accounts.refuse_foreign(sender.caller, sender.group)
        for number, message in enumerate(messages):
            if number % _IN_A_ROW == _IN_A_ROW - 1:
                await asyncio.sleep(0)  # other calls
            if len(message.headers) > MAX_HEADERS:  # before each of them is looked at
                raise GatewayError(RefusalReason.HEADERS_TOO_LARGE, f"A message has at most {MAX_HEADERS:,} headers.")
            with _refusing(RefusalReason.REQUEST):
                lawful_topic(message_of(message).topic)
                refuse_own_topic(message.topic, self._topics)
                lawful_names(message.headers)
            with _refusing(RefusalReason.TOO_LARGE):
                refuse_too_large(message.value, message.key, message.headers)
            self._accounts.refuse_topic(sender.caller, sender.group, message.topic)
            await self._places.look(message.topic)
        if deliver_at_ms is not None and deliver_at_ms - self._accounts.clock_ms() > self.most_delay_ms:
            days = f"{self.most_delay_ms / 86_400_000:g} days"
            said = f"It is to be delivered in more than {days} (transactions.delay_max): the job would reject it."
            raise GatewayError(RefusalReason.DELIVERY_TIME, said)
        return until

    async def _write_half(
        self,
        sender: ActingAs,
        transaction_id: str,
        messages: Sequence[Message],
        options: TransactionOptions | None,
        *,
        is_decided: bool = False,
    ) -> HalfPosition:
        with _refusing(RefusalReason.BUSY):
            self.limits.refuse(sender.group)
        # those of one id lie on one partition
        partition = crc32(transaction_id.encode()) % await self._places.half_partitions()
        signing = self._accounts.signing(sender.caller, sender.group)
        now_ms = self._accounts.clock_ms()

        def record_of() -> OutgoingRecord:
            half = _half(sender.group, transaction_id, messages, options, is_decided=is_decided)
            record = half._replace(topic=self._topics.half, partition=partition)
            return record if signing is None else signed(record, signing, now_ms)

        size = sum(content_bytes(one.key, one.value, one.headers) + MESSAGE_BYTES for one in messages)
        appended = await self._write(await converted(size, record_of))
        if signing is None:
            return HalfPosition(partition, appended.offset)
        try:
            refuse_other_time(appended.time_ms - now_ms)
        except HalfMessageError as error:
            raise GatewayError(RefusalReason.KAFKA, str(error)) from None
        return HalfPosition(partition, appended.offset)


def _noted(work: "asyncio.Future[T]") -> None:
    """Nobody may wait for it any more: asyncio is not to complain that its failure was not looked at."""
    if not work.cancelled():
        work.exception()


def _half(
    group: str,
    transaction_id: str,
    messages: Sequence[Message],
    options: TransactionOptions | None,
    *,
    is_decided: bool,
) -> OutgoingRecord:
    first = messages[0]
    value, key = first.value, first.key
    if len(messages) > 1:
        with _refusing(RefusalReason.TOO_LARGE):
            refuse_several_too_large(messages)
    with _refusing(RefusalReason.REQUEST):
        if len(messages) > 1:
            headers = half_headers(transaction_id, group, first.topic, options=options, messages=len(messages))
            value, key = pack(messages), None
        else:
            headers = half_headers(
                transaction_id, group, first.topic, first.headers, partition=first.partition, options=options
            )
    headers = decided(headers) if is_decided else headers
    with _refusing(RefusalReason.TOO_LARGE):
        refuse_too_large(value, key, headers)
    return OutgoingRecord("", 0, key, value, headers)


def _id_of(sender: ActingAs, once: str) -> str:
    """As unique as a UUID; of what has a name of its own, the same each time."""
    if not once:
        return os.urandom(16).hex()
    named = f"{sender.caller.account}\0{sender.group}\0{once}"
    return NAMED + hashlib.sha256(named.encode(errors="replace")).hexdigest()[:32]


@contextmanager
def _refusing(reason: RefusalReason) -> Iterator[None]:
    """What breaks the protocol, or a limit, is refused for this reason, in the error's own words."""
    try:
        yield
    except (ProtocolError, GroupOverLimitError) as error:
        raise GatewayError(reason, str(error)) from None
