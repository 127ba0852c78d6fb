"""Writes what operators decide: ops with ``cb-source=operator``."""

from collections.abc import Iterable, Mapping
from itertools import islice
from types import TracebackType
from typing import Any, Self

from checkback.exceptions import OperatorError
from checkback.kafka.kafka_python import SHARED, make_client
from checkback.kafka.kafka_python.library import KafkaError, KafkaProducer
from checkback.kafka.kafka_python.repairs import close_producer
from checkback.kafka.signing import signed
from checkback.kafka.transport import OutgoingRecord
from checkback.wire.delivered import LaneFact, stating
from checkback.wire.protocol import Action, HalfPosition, Source, Topics, op_headers
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
    never parked, changes nothing and is found in ``cb.rejected``. Written twice, one counts once. ``signing``: the key
    that they are signed with.

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
            for row, sent in [(row, self._send(row, action, remark, fact)) for row in some]:
                try:
                    sent.get(_SECONDS)
                except KafkaError as error:
                    raise _not_taken(row, action, error) from error
                written += 1
        return written

    def _send(self, row: Row, action: Action, remark: str, fact: LaneFact | None) -> Any:
        transaction_id, group, half = row
        headers = stating(op_headers(transaction_id, group, half, action, Source.OPERATOR), fact)
        record = OutgoingRecord(self._topics.op, half.partition, None, remark.encode(), headers)
        if self._signing is not None:
            record = signed(record, self._signing)
        try:
            return self._producer.send(record.topic, record.value, headers=record.headers, partition=record.partition)
        except (KafkaError, ValueError) as error:  # the latter where there is no such partition
            raise _not_taken(row, action, error) from error


def _not_taken(row: Row, action: Action, error: Exception) -> OperatorError:
    return OperatorError(f"The {action} of {row[0]} did not reach Kafka; do it again. ({error})")
