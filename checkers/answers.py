"""Writes the answers to checks, as ops, on a thread of its own."""

import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple

from checkback.exceptions import ProtocolError
from checkback.kafka.librdkafka.errors import NEVER_TAKEN, NOT_ALLOWED, error_code
from checkback.kafka.librdkafka.library import KafkaException
from checkback.kafka.outages import Outage
from checkback.kafka.signing import signed
from checkback.kafka.transport import OutgoingRecord, TellingTransport
from checkback.wire.delivered import LaneFact, stating
from checkback.wire.protocol import Action, HalfPosition, Source, Topics, op_headers
from checkback.wire.rights import not_allowed, write
from checkback.wire.signed_records import SigningKey

_LOGGER = logging.getLogger(__name__)
_HEAR_SECONDS = 0.02
"""For an answer that Kafka has: until then its check counts as unanswered."""


class Answer(NamedTuple):
    """What is written of a check; its payload is not kept until then."""

    transaction_id: str
    group: str
    half: HalfPosition
    action: Action
    remark: str
    origin: Any
    """Where the check came from."""
    fact: LaneFact | None = None
    """What is known of its lane, where it names one."""


class AnswerWriter:
    """Takes answers from any thread; :meth:`run` writes them, each until Kafka has it.

    ``signing``: the key that they are signed with.
    """

    def __init__(self, topics: Topics, outage: Outage, signing: SigningKey | None = None) -> None:
        self._topics = topics
        self._signing = signing
        self._outage = outage
        self._waiting: SimpleQueue[Answer | None] = SimpleQueue()
        self._failure: BaseException | None = None
        self._closing = threading.Event()
        self._lock = threading.Lock()
        self._unwritten = 0

    @property
    def unwritten(self) -> int:
        """Answers that Kafka does not have yet."""
        return self._unwritten

    def put(self, answer: Answer) -> None:
        """Have this one written."""
        self._count(1)
        self._waiting.put(answer)

    def run(self, transport: TellingTransport, done: Callable[[Any], None]) -> None:
        """Write until closed.

        ``done`` is called, on some thread, with the origin of each answer that Kafka has or will never take.
        """
        while (answer := self._next(transport)) is not None:
            failure, self._failure = self._failure, None
            if failure is not None:  # for all that failed together, one pause
                self._closing.wait(self._outage.failed(failure))
            self._write(transport, answer, done)

    def _next(self, transport: TellingTransport) -> Answer | None:
        while True:
            transport.hear()
            with suppress(Empty):
                return self._waiting.get(timeout=_HEAR_SECONDS)

    def close(self) -> None:
        """End :meth:`run`; what it has not written is asked again by whoever comes next."""
        self._closing.set()
        self._waiting.put(None)

    def _write(self, transport: TellingTransport, answer: Answer, done: Callable[[Any], None]) -> None:
        try:
            headers = op_headers(answer.transaction_id, answer.group, answer.half, answer.action, Source.CHECK)
            remark, partition = answer.remark.encode(errors="replace"), answer.half.partition
            record = OutgoingRecord(self._topics.op, partition, None, remark, stating(headers, answer.fact))
            if self._signing is not None:
                record = signed(record, self._signing)
            transport.write_heard(record, partial(self._heard, answer, done))
        except (ProtocolError, OverflowError) as error:  # a record that names a partition that no topic has
            _LOGGER.warning("Skipped a record of %s: %s", self._topics.check, error)
            self._end(answer, done)

    def _heard(self, answer: Answer, done: Callable[[Any], None], error: BaseException | None) -> None:
        if error is None:
            self._outage.answered()
            self._end(answer, done)
            return
        code = error_code(error) if isinstance(error, KafkaException) else None
        if code not in NEVER_TAKEN:
            # without the right to write there no answer can be written: all of them wait for it
            missing = [write(self._topics.op, "")]
            self._failure = not_allowed("the check service", error, missing) if code in NOT_ALLOWED else error
            self._waiting.put(answer)
            return
        # The state machine asks again after check_answer_ttl; waiting here would hold up all others.
        _LOGGER.error("The answer to a check was not written: %r", error)
        self._end(answer, done)

    def _end(self, answer: Answer, done: Callable[[Any], None]) -> None:
        self._count(-1)
        done(answer.origin)

    def _count(self, change: int) -> None:
        with self._lock:
            self._unwritten += change
