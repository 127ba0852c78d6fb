"""The transactional producer: half message, local transaction, op."""

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from time import monotonic, time_ns
from types import TracebackType
from typing import Any, Self, cast

from checkback.exceptions import ConfigurationError, NotAllowedError, ProducerClosedError, ProtocolError
from checkback.forking import belongs_to_parent, in_child_of
from checkback.kafka.connecting import TransportName, connect
from checkback.kafka.send_limits import SendLimits
from checkback.kafka.signing import signing_transport
from checkback.kafka.transport import OutgoingRecord, TellingTransport, Transport
from checkback.listener import HalfMessage, LocalTransactionState, TransactionListener, TransactionSendResult
from checkback.producing.arguments import deliver_at_ms_of, message_of, messages_of, options_of
from checkback.producing.blocks import TransactionBlocks
from checkback.producing.delivery import DeliveryMode, DirectDelivery, delivery_mode, direct_delivery
from checkback.producing.ops import OpContent, op_record
from checkback.producing.partition_run import PartitionRun
from checkback.producing.real_topics import MissingTopic, RealTopics
from checkback.producing.scope import WAIT_SECONDS, Delivery, Rollback
from checkback.producing.several import Transaction
from checkback.wire.limits import refuse_several_too_large, refuse_too_large
from checkback.wire.message_json import pack
from checkback.wire.protocol import (
    Action,
    HalfPosition,
    Headers,
    Message,
    Topics,
    TransactionOptions,
    decided,
    half_headers,
    lawful_group,
)
from checkback.wire.signed_records import MOST_ON_ITS_WAY_MS, SigningKey

_LOGGER = logging.getLogger(__name__)

_LOOK_SECONDS = 2.0
"""For a warning of a missing topic, when a process ends right after its first message."""
_LEAST_CLOSE_SECONDS = 1.0
"""For the last ops to get to Kafka, however long all before them took."""


class TransactionProducer(TransactionBlocks):
    """Sends messages that appear if, and only if, a local transaction commits.

    One instance serves all threads of a process. ``send_in_transaction`` does everything; ``prepare`` followed by
    ``commit`` or ``rollback`` are the same steps one by one. When the process dies between two of them, the job
    asks the check endpoint of the producer group (:class:`checkback.CheckEndpoint`).

    Args:
        bootstrap_servers: Kafka's ``host:port``, several with commas.
        group: the producer group: all processes that can answer for one another's transactions.
        listener: runs and checks local transactions; needed by ``send_in_transaction`` only.
        topics: Checkback's topics, when the job runs under another prefix than ``cb.``.
        half_timeout_ms: how long to wait for Kafka to acknowledge a half message; 100 ms to an hour, with
            ``signing`` to 2 min.
        transport: the Kafka client to use; ``"confluent-kafka"`` is faster and needs the extra ``fast``. Or an
            object of your own, a :class:`~checkback.kafka.transport.Transport`, which is the producer's from then on.
        kafka_options: further settings of that client (security and the like), under its own names.
        missing_topic: what to do when Kafka does not have a message's topic: ``"warn"`` in the log, once for each
            topic; ``"refuse"`` the message with :class:`~checkback.exceptions.MissingTopicError`, before anything is
            written; or ``"ignore"``.
        delivery: who delivers what is committed: ``"job"``, or ``"direct"``: this producer itself, in milliseconds, and
            the job whatever it cannot (``docs/direct-delivery.md``). ``"direct"`` needs ``"confluent-kafka"``.
        signing: the key with which half messages and ops are signed, where an access policy wants that
            (``docs/access-policy.md``).

    Raises:
        ConfigurationError: Kafka does not answer, the half or op topic is missing, or this producer may have no lane.
        NotAllowedError: Kafka does not let this user write to one of them.
    """

    def __init__(  # noqa: PLR0913  (but for the first three by their names)
        self,
        bootstrap_servers: str,
        group: str,
        listener: TransactionListener | None = None,
        *,
        topics: Topics | None = None,
        half_timeout_ms: int = 10_000,
        transport: TransportName | Transport | str = TransportName.KAFKA_PYTHON,
        kafka_options: Mapping[str, Any] | None = None,
        missing_topic: MissingTopic | str = MissingTopic.WARN,
        delivery: DeliveryMode | str = DeliveryMode.JOB,
        signing: SigningKey | None = None,
    ) -> None:
        lawful_group(group)
        self.group = group
        self.topics = topics or Topics()
        if not isinstance(self.topics, Topics):
            raise ConfigurationError(f"topics are checkback.Topics, not {type(topics).__name__}.")
        if listener is not None and not hasattr(listener, "execute_local_transaction"):
            raise ConfigurationError("A listener has execute_local_transaction and check_local_transaction.")
        self._listener = listener
        self._closed = False
        self._process = os.getpid()
        if kafka_options and not isinstance(transport, str):
            raise ConfigurationError("kafka_options are for a transport that is named: set up your own one yourself.")
        self._real_topics = RealTopics(self._missing, missing_topic, self.topics)
        too_long = isinstance(half_timeout_ms, int | float) and half_timeout_ms > MOST_ON_ITS_WAY_MS
        if signing is not None and too_long:
            raise ConfigurationError(
                f"With signing, half_timeout_ms is at most {MOST_ON_ITS_WAY_MS}, not {half_timeout_ms}: a half message "
                "that Kafka takes later the job may refuse, after its local transaction has committed."
            )
        hears_ops = delivery_mode(delivery, transport) is DeliveryMode.DIRECT
        self._transport = (
            connect(transport, bootstrap_servers, half_timeout_ms, kafka_options or {}, hears_ops=hears_ops)
            if isinstance(transport, str)
            else transport
        )
        # an application's own transport cannot read them
        self._limits = SendLimits(getattr(self._transport, "limit_notices", None), self.topics, group)
        if signing is not None:
            self._transport = signing_transport(self._transport, signing)
        self._direct: DirectDelivery | None = None
        try:
            self._partition_run = PartitionRun(partial(self._transport.partitions, self.topics.half, self.topics.op))
        except NotAllowedError:
            self.close(seconds=1)
            raise
        except ConfigurationError as error:
            self.close(seconds=1)
            raise ConfigurationError(f"{error} Run 'checkback topics create' first.") from error
        if hears_ops:
            reached = (bootstrap_servers, kafka_options or {}, self.topics, group)
            try:
                self._direct = direct_delivery(cast("TellingTransport", self._transport), *reached)  # see delivery_mode
            except ConfigurationError:
                self.close(seconds=1)
                raise

    def send_in_transaction(
        self, message: Message, *, arg: Any = None, options: TransactionOptions | None = None, wait: bool = False
    ) -> TransactionSendResult:
        """Send a message with a local transaction.

        1. Write the half message, and wait until Kafka has it (acks=all).
        2. Run the listener's local transaction. An exception makes its outcome *unknown*.
        3. Write the op, without waiting: if it is lost, the check finds out.

        Args:
            message: what consumers will get.
            arg: handed to ``execute_local_transaction``.
            options: check immunity, check max, time of delivery.
            wait: with ``delivery="direct"`` return when consumers can read it, or the job is to deliver it, or after
                10 s: ``delivered`` and ``left_to_job`` of the result say which.

        Raises:
            HalfMessageError: the half message was not written; the local transaction was not run. It is a
                GroupOverLimitError while the job would reject it, because the group is over a limit.
            ProtocolError: an argument breaks the protocol; nothing was written.
            ProducerClosedError: after ``close()``.
        """
        self._refuse_before(wait)
        return self._run(self.prepare(message, options=options), arg, wait=wait)  # 1

    def begin(self, *, options: TransactionOptions | None = None) -> Transaction:
        """Begin a transaction of several messages: ``begin().add(...).add(...).send(arg=...)``.

        There is one local transaction and one decision: all of them are delivered, or none.
        """
        self._refuse_when_closed()
        return Transaction(self, options)

    def send_several_in_transaction(
        self,
        messages: Sequence[Message],
        *,
        arg: Any = None,
        options: TransactionOptions | None = None,
        wait: bool = False,
    ) -> TransactionSendResult:
        """As ``send_in_transaction``, for several messages that are delivered together or not at all."""
        self._refuse_before(wait)
        return self._run(self.prepare_several(messages, options=options), arg, wait=wait)

    def send(self, message: Message, *, options: TransactionOptions | None = None) -> HalfMessage:
        """Send a message that has no local transaction: delivered once, now or at ``options.deliver_at_ms``.

        One record instead of two, and never checked. Returns when Kafka has it.

        Raises:
            HalfMessageError: Kafka did not acknowledge it. After a time-out it may have it all the same: sent again,
                it may be delivered twice, with another id.
            ProtocolError, ProducerClosedError: as in ``send_in_transaction``.
        """
        self._refuse_when_closed()
        return self._written(message, options, decided)

    def send_later(
        self,
        message: Message,
        *,
        at: datetime | int | None = None,
        delay: timedelta | float | None = None,
    ) -> HalfMessage:
        """As :meth:`send`, delivered at a time or after a while, by the job's clock; at most ``delay_max`` ahead (7 d).

        Args:
            message: what consumers will get.
            at: a datetime with a time zone, or ms since 1970. One that is over means now.
            delay: instead of ``at``: a timedelta, or seconds, from this machine's now on.
        """
        deliver_at_ms = deliver_at_ms_of(at, delay, time_ns() // 1_000_000)
        return self.send(message, options=TransactionOptions(deliver_at_ms=deliver_at_ms))

    def prepare(self, message: Message, *, options: TransactionOptions | None = None) -> HalfMessage:
        """Write a half message and wait until Kafka has it. Arguments and errors as in ``send_in_transaction``."""
        self._refuse_when_closed()
        return self._written(message, options)

    def _written(
        self,
        message: Message,
        options: TransactionOptions | None,
        marked: Callable[[Headers], Headers] = tuple,
    ) -> HalfMessage:
        message = message_of(message)
        topic, value, key, headers, partition = message
        transaction_id = _new_transaction_id()
        given = options_of(options)
        wire = half_headers(transaction_id, self.group, topic, headers, partition=partition, options=given)
        self._real_topics.look([topic])
        if marked is not decided or _is_later(given):  # else it takes no room
            self._limits.refuse(self.group)
        if self._direct is None or marked is decided or _is_later(given):
            half, lane = self._write_half(value, key, marked(wire)), ""
        else:
            write = partial(self._write_half, value, key)
            half, lane = self._direct.write(wire, transaction_id, [message], write)
        return HalfMessage(transaction_id, topic, value, key, headers, half, lane=lane)

    def prepare_several(self, messages: Sequence[Message], *, options: TransactionOptions | None = None) -> HalfMessage:
        """Write several messages as one half message, and wait until Kafka has it.

        All of them together must fit into a record of the half topic, and into 16 MiB. Errors as in
        ``send_in_transaction``.
        """
        self._refuse_when_closed()
        messages = messages_of(messages)
        transaction_id = _new_transaction_id()
        value = pack(messages)
        refuse_several_too_large(messages)
        topic, given = messages[0].topic, options_of(options)
        wire = half_headers(transaction_id, self.group, topic, options=given, messages=len(messages))
        self._real_topics.look([message.topic for message in messages])
        self._limits.refuse(self.group)
        if self._direct is None or _is_later(given):
            half, lane = self._write_half(value, None, wire), ""
        else:
            write = partial(self._write_half, value, None)
            half, lane = self._direct.write(wire, transaction_id, messages, write, numbered=True)
        return HalfMessage(transaction_id, topic, None, None, (), half, messages, lane)

    def _write_half(self, value: bytes | None, key: bytes | None, wire: Headers) -> HalfPosition:
        refuse_too_large(value, key, wire)
        partition = self._partition_run.next_partition()
        record = OutgoingRecord(self.topics.half, partition, key, value, wire)
        half = HalfPosition(partition, self._transport.write_half(record).offset)
        self._partition_run.look()  # Kafka has just answered: it will again
        return half

    def commit(self, message: HalfMessage, remark: str = "") -> None:
        """Say that the local transaction has committed: the message will be delivered. Does not wait."""
        self._refuse_when_closed()
        self._end(message, Action.COMMIT, remark)

    def rollback(self, message: HalfMessage, remark: str = "") -> None:
        """Say that the local transaction has not happened: nobody will see the message. Does not wait."""
        self._refuse_when_closed()
        self._end(message, Action.ROLLBACK, remark)

    def end(self, message: HalfMessage, error: BaseException | None) -> Delivery | None:
        """End a transaction as the code that ran it ended: see :class:`~checkback.TransactionScope`. Does not wait."""
        if error is None:
            return self._end(message, Action.COMMIT, "")
        if isinstance(error, Rollback):
            return self._end(message, Action.ROLLBACK, str(error))
        return self._end(message, Action.UNKNOWN, f"the transaction's code raised {error!r}")

    def flush(self, seconds: float = 10.0) -> None:
        """Wait until Kafka has all ops written so far, and with ``delivery="direct"`` the messages."""
        if not in_child_of(self._process):
            if self._direct is not None:
                self._direct.flush(seconds)
            self._transport.flush(seconds)

    def close(self, seconds: float = 10.0) -> None:
        """Write what is waiting, for at most ``seconds``, and end. Harmless when called again, or in a forked child."""
        if not self._closed and not in_child_of(self._process):
            self._closed = True
            until = monotonic() + seconds
            self._real_topics.wait(min(seconds, _LOOK_SECONDS))
            if self._direct is not None:
                self._direct.close(max(0.0, until - monotonic()))
            self._transport.close(max(_LEAST_CLOSE_SECONDS, until - monotonic()))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _run(self, message: HalfMessage, arg: Any, *, wait: bool) -> TransactionSendResult:
        remark = ""
        try:
            state = LocalTransactionState(self._the_listener().execute_local_transaction(message, arg))  # 2
        except Exception as error:  # whatever the application raises, the database may have committed
            state, remark = LocalTransactionState.UNKNOWN, f"execute_local_transaction raised {error!r}"
            _LOGGER.exception("The local transaction of %s raised: its outcome is unknown", message.transaction_id)
        delivery = self._end(message, Action(state), remark)  # 3
        delivered = wait and delivery is not None and delivery.delivered(WAIT_SECONDS)
        left = wait and state is LocalTransactionState.COMMIT and (delivery is None or delivery.left_to_job)
        return TransactionSendResult(message.transaction_id, state, message.half, remark, delivered, left)

    def _end(self, message: HalfMessage, action: Action, remark: str) -> Delivery | None:
        if not isinstance(message, HalfMessage):
            raise ProtocolError(f"A half message is what prepare() gives, not {type(message).__name__}.")
        if in_child_of(self._process):  # a child that leaves a block: the decision is its parent's
            return None
        lost = partial(_report_lost_op, message, action)
        if self._direct is not None and message.lane:
            return self._direct.end(message, action, remark, lost)
        record = op_record(self.topics.op, self.group, message.transaction_id, message.half, OpContent(action, remark))
        self._transport.write_op(record, lost)
        return None

    def _missing(self, topics: Sequence[str]) -> list[str]:
        return self._transport.missing(topics)

    def _the_listener(self) -> TransactionListener:
        if self._listener is None:
            raise ConfigurationError("send_in_transaction needs a listener: give one to TransactionProducer().")
        return self._listener

    def _refuse_before(self, wait: bool) -> None:  # noqa: FBT001  (private, and said by name where it is called from)
        self._the_listener()
        if wait and self._direct is None:
            raise ConfigurationError(
                "wait=True needs delivery='direct': of the job's deliveries a producer hears nothing."
            )

    def _refuse_when_closed(self) -> None:
        if in_child_of(self._process):
            raise ProducerClosedError(belongs_to_parent("TransactionProducer"))
        if self._closed:
            raise ProducerClosedError("This TransactionProducer is closed: make a new one.")


def _is_later(options: TransactionOptions | None) -> bool:
    return options is not None and options.deliver_at_ms is not None


def _new_transaction_id() -> str:
    return os.urandom(16).hex()  # as unique as a UUID, for a quarter of its time


def _report_lost_op(message: HalfMessage, action: Action, error: BaseException) -> None:
    _LOGGER.warning(
        "The %s of transaction %s did not reach Kafka (%r); the check will repair it",
        *(action, message.transaction_id, error),
    )
