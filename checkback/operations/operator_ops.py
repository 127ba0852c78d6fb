"""Writes what operators decide: ops with ``cb-source=operator``."""

from collections.abc import Iterable, Mapping
from itertools import islice
from types import TracebackType
from typing import Any, Self

from checkback.exceptions import CheckbackError, OperatorError
from checkback.kafka.kafka_python import SHARED, make_client
from checkback.kafka.kafka_python.errors import is_refusal
from checkback.kafka.kafka_python.library import KafkaError, KafkaProducer, TopicPartition
from checkback.kafka.kafka_python.repairs import close_producer
from checkback.kafka.signing import signed
from checkback.kafka.transport import OutgoingRecord
from checkback.operations.story_events import remark_of
from checkback.wire.audit import AuditKind, AuditRecord
from checkback.wire.lanes import LaneFact, stating
from checkback.wire.protocol import Action, HalfPosition, Source, Topics, op_headers
from checkback.wire.rights import not_allowed, write
from checkback.wire.signed_records import SigningKey

_AT_ONCE = 1_000
"""So many are on their way to Kafka before one waits for them: a million take the memory of a thousand."""
_SECONDS = 30.0
"""For Kafka to take one."""

Row = tuple[str, str, HalfPosition]
"""Transaction id, producer group, place of the half message."""


class OperatorOps:
    """Writes ops with ``cb-source=operator``; use it as a context manager.

    The job judges them like all others, in the order of the op topic: one about a message that is decided, or that was
    never parked, changes nothing and is found in ``cb.rejected``. Written twice, one counts once. Who decides what is
    told in ``cb.audit`` first. ``signing``: the key that they are signed with.

    Raises:
        ConfigurationError: entered with an option that is wrong, or ours to set.
        KafkaUnreachableError: entered while no Kafka answers.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        topics: Topics | None = None,
        options: Mapping[str, Any] | None = None,
        signing: SigningKey | None = None,
    ) -> None:
        self._topics = topics or Topics()
        self._signing = signing
        # kafka-python's own is a minute: so long somebody would wait for the word that the op topic is not there
        self._client = {"bootstrap_servers": bootstrap_servers, "acks": "all", "max_block_ms": int(_SECONDS * 1000)}
        self._options = dict(options or {})
        self._producer: Any = None
        self.ends: dict[TopicPartition, int] = {}
        """The offset behind the last op that was written, by partition of the op topic."""

    def __enter__(self) -> Self:
        self._producer = make_client(KafkaProducer, self._client, self._options, SHARED)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        # what has not been taken by now was waited for long enough
        close_producer(self._producer, 0)

    def write(self, rows: Iterable[Row], action: Action, remark: str = "", fact: LaneFact | None = None) -> int:
        """Write one op for each of these half messages, and wait until Kafka has them; how many there were.

        ``fact``: what their lanes have done, for those that name one: see :mod:`checkback.operations.lanes`.

        Raises:
            OperatorError: Kafka did not take one; those before it are written, and some behind it may be.
        """
        written = 0
        rest = iter(rows)
        while some := list(islice(rest, _AT_ONCE)):
            self._tell(some, action, remark)
            for row, sent in [(row, self._send(row, action, remark, fact)) for row in some]:
                try:
                    place = sent.get(_SECONDS)
                except KafkaError as error:
                    raise _not_taken(row, action, error, self._topics.op) from error
                self.ends[TopicPartition(place.topic, place.partition)] = place.offset + 1
                written += 1
        return written

    def file(self, value: bytes) -> tuple[int, int, int]:
        """Write a record to ``cb.audit``, and wait until Kafka has it; its partition, offset and time.

        Raises:
            KafkaError: Kafka did not take it.
        """
        place = self._producer.send(self._topics.audit, value).get(_SECONDS)
        return place.partition, place.offset, place.timestamp

    def _tell(self, rows: list[Row], action: Action, remark: str) -> None:
        """Before anything is decided: what cannot be told of is not done."""
        who, why = remark_of(remark.encode())
        record = AuditRecord(
            AuditKind.DECISION,
            who,
            action.value,
            key=self._signing.id if self._signing is not None else "",
            group=",".join(sorted({group for _, group, _ in rows})),
            number=len(rows),
            halves=tuple(str(half) for _, _, half in rows),
            why=why,
        )
        try:
            self.file(record.value)
        except KafkaError as error:
            raise _not_taken(rows[0], action, error, self._topics.audit) from error

    def _send(self, row: Row, action: Action, remark: str, fact: LaneFact | None) -> Any:
        transaction_id, group, half = row
        headers = stating(op_headers(transaction_id, group, half, action, Source.OPERATOR), fact)
        record = OutgoingRecord(self._topics.op, half.partition, None, remark.encode(), headers)
        if self._signing is not None:
            record = signed(record, self._signing)
        try:
            return self._producer.send(record.topic, record.value, headers=record.headers, partition=record.partition)
        except (KafkaError, ValueError) as error:  # the latter where there is no such partition
            raise _not_taken(row, action, error, self._topics.op) from error


def _not_taken(row: Row, action: Action, error: Exception, topic: str) -> CheckbackError:
    if is_refusal(error):
        return not_allowed("the operator", error, [write(topic, "")])
    return OperatorError(f"The {action} of {row[0]} did not reach Kafka; do it again. ({error})")
