"""Transactions of librdkafka: how a producer fences those before it, and what ends a transaction one way or the other.

The one place that does so: the job's sink, its probe and its fence, the forwarder and consumers stand on it.
"""

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition

from checkback.exceptions import CheckbackError
from checkback.kafka.librdkafka import CONNECTED_TO_ALL, make_client
from checkback.kafka.librdkafka.connection_log import ConnectionLog
from checkback.kafka.librdkafka.errors import TIMED_OUT, error_code, serve
from checkback.kafka.librdkafka.groups import in_time
from checkback.kafka.reaching import RECONNECT_MS
from checkback.wire.limits import MOST_RECORD_BYTES

_METADATA_SECONDS = 30.0
_OPERATION_SECONDS = 60.0
_SETTLED_SECONDS = 5.0
_LONGER_SECONDS = 1.0


class StuckError(CheckbackError):
    """The last transaction under this transactional id is decided, but Kafka cannot write its markers."""

    retriable = True


class SpentEpochError(CheckbackError):
    """A producer may begin no further transaction: a request of its last one may still arrive at a broker.

    Kafka would take that request for one of the next transaction of the same epoch: an EndTxn would end it in the
    middle, a TxnOffsetCommit would move its offsets back.
    """

    retriable = True


def transactional_settings(transactional_id: str, timeout_ms: int) -> dict[str, Any]:
    """Settings that every transactional producer has."""
    return {
        "transactional.id": transactional_id,
        "transaction.timeout.ms": timeout_ms,
        "message.timeout.ms": timeout_ms,
        # the first try falls before the socket is up: without this the next one waits 100 ms
        "reconnect.backoff.ms": 10,
        "reconnect.backoff.max.ms": RECONNECT_MS,
        # librdkafka's default is below Kafka's own; what a topic takes is for the broker to say
        "message.max.bytes": MOST_RECORD_BYTES,
    }


class Transactional:
    """A transactional producer: for one transaction, or for a series of them.

    librdkafka repeats EndTxn, AddOffsetsToTxn and TxnOffsetCommit by itself when a connection fails, and reports
    success. The first copy may arrive later, and Kafka then applies it to the producer's next transaction: both have
    the same epoch. (KIP-890 raises the epoch for each transaction; librdkafka does not have that yet.) So a producer
    begins no further transaction after one in which a connection failed. Its owner makes another one, which fences.

    Args:
        settings: librdkafka's.
        series: whether it may begin a second transaction. The lost connections are read from librdkafka's debug log,
            which costs some 200 lines for each new producer: too much for the job's sink, whose producers have one
            transaction each.

    After any error the owner makes another producer under the same transactional id: used again after a refusal,
    librdkafka's has lost count of its records, and its next transaction fails.
    """

    def __init__(self, settings: Mapping[str, Any], *, series: bool = False) -> None:
        self._connections = ConnectionLog(settings) if series else None
        # sparse connections log 1,500 lines a second while three brokers are away; each is sorted into all before it
        log = {} if self._connections is None else {**CONNECTED_TO_ALL, **self._connections.settings()}
        self.producer: Producer = make_client(Producer, {**settings, **log})
        self.spent = False
        """Whether :meth:`begin` will refuse: the last transaction has not ended, or a connection failed during it."""
        self._unanswered = False

    def connect(self, topic: str | None = None, seconds: float = _METADATA_SECONDS) -> None:
        """Before :meth:`fence`: that waits for half a second, often, where no connection is up.

        Twice for one topic that there is: the first answer comes from the address we were given, the second from a
        broker by its own name. Quicker than asking once about all topics of the cluster (None), and much so where there
        are many.
        """
        if topic is None:
            self.producer.list_topics(timeout=seconds)
            return
        for _ in range(2):
            self.producer.list_topics(topic, timeout=seconds)

    def fence(self, seconds: float = _OPERATION_SECONDS) -> None:
        """Fence every earlier producer of this transactional id, and wait until what it left is settled, but not long.

        Raises:
            StuckError: it is decided, and not settled within some seconds. They are fenced all the same.
            KafkaException: what else may be.
        """
        try:
            self.producer.init_transactions(_SETTLED_SECONDS)
        except KafkaException as error:
            if error_code(error) == KafkaError.CONCURRENT_TRANSACTIONS:
                raise StuckError(error.args[0].str()) from None  # the exception would keep the producer
            if not error.args[0].retriable():
                raise
            self.producer.init_transactions(seconds)

    def begin(self) -> None:
        """Begin a transaction.

        Raises:
            SpentEpochError: a request of the last transaction may still arrive. Nothing was begun.
        """
        if self.spent:
            raise SpentEpochError(
                "A connection to Kafka failed during this producer's last transaction, and a request of it may still "
                "arrive: another producer takes its place."
            )
        if self._connections is not None:
            self.poll(0)
            self._connections.lost = False  # between two transactions no request is under way
        self.spent = True
        self.producer.begin_transaction()

    def add_offsets(
        self, offsets: Sequence[TopicPartition], group: Any, seconds: float, margin: float | None = None
    ) -> None:
        """Put a group's offsets into the transaction.

        ``margin`` (s): how much later than ``seconds`` librdkafka may answer before its call counts as lost.

        Raises:
            KafkaException: Kafka does not take them, or has not answered in time (_TIMED_OUT). Then that producer is of
                no use any more; the next one of its name ends the transaction.
        """
        send = self.producer.send_offsets_to_transaction
        try:
            late = _LONGER_SECONDS if margin is None else margin
            in_time(seconds + late, lambda: send(list(offsets), group, seconds))
        except KafkaException as error:
            self._unanswered = error_code(error) in TIMED_OUT
            raise

    def commit(self, seconds: float) -> None:
        """Commit. It waits for delivery reports that only :meth:`poll` and :meth:`flush` take off the queue."""
        self.producer.commit_transaction(seconds)
        self.spent = self._connection_lost()

    def abort_acknowledged(self, seconds: float) -> None:
        """Abort, and raise if Kafka does not acknowledge it."""
        self.producer.abort_transaction(seconds)
        self.spent = self._unanswered or self._connection_lost()

    def _connection_lost(self) -> bool:
        if self._connections is None:
            return True  # unknown
        self.poll(0)  # hands over the log lines that librdkafka has queued
        return self._connections.lost

    def poll(self, seconds: float) -> int:
        """Hear what became of records, waiting for the first of them for at most ``seconds``; gives their number."""
        return serve(self.producer.poll, seconds)

    def take_log(self) -> None:
        """Take what librdkafka has logged, so that it does not gather: 15 lines a second for each broker that is away.

        An error of the client is raised by the next transaction.
        """
        with contextlib.suppress(KafkaException):
            self.poll(0)

    def flush(self, seconds: float) -> int:
        """Wait until nothing is under way any more, for at most ``seconds``; gives how many still are."""
        return serve(self.producer.flush, seconds)

    def purge(self, seconds: float) -> None:
        """Drop what is not yet in Kafka, and hear of what was refused."""
        self.producer.purge()
        with contextlib.suppress(KafkaException):
            self.flush(seconds)

    def abort(self, seconds: float) -> None:
        """Abort, so that no consumer waits for this transaction's end. Without an answer Kafka does it in time."""
        self.purge(seconds)
        with contextlib.suppress(KafkaException, SystemError):
            self.producer.abort_transaction(seconds)
