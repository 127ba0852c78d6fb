"""Writes the answers to checks, as ops, on a thread of its own."""

import logging
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple

from checkback.exceptions import CheckbackError, OwnTopicError, ProtocolError
from checkback.kafka.librdkafka.errors import NEVER_TAKEN, NOT_ALLOWED, error_code
from checkback.kafka.librdkafka.library import KafkaError, KafkaException
from checkback.kafka.outages import Outage
from checkback.kafka.signing import signed
from checkback.kafka.transport import OutgoingRecord, TellingTransport
from checkback.wire.lanes import LaneFact, stating
from checkback.wire.protocol import Action, HalfPosition, Source, Topics, op_headers
from checkback.wire.rights import not_allowed, write
from checkback.wire.signed_records import SigningKey

_LOGGER = logging.getLogger(__name__)
_HEAR_SECONDS = 0.02
"""For an answer that Kafka has: until then its check counts as unanswered."""
_MOST_REFUSED = 10_000
"""Answers in memory that ``cb.op`` refuses now; the checks of others wait in Kafka, and are asked again."""


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
    refused: bool = False
    """Whether ``cb.op`` has refused it before."""


class AnswerWriter:
    """Takes answers from any thread; :meth:`run` writes them, each until Kafka has it.

    Answers that ``cb.op`` refuses, because it lacks their partition, for example, are written again and hold up no
    others. ``signing``: the key that they are signed with.
    """

    def __init__(self, topics: Topics, clock_ms: Callable[[], int], signing: SigningKey | None = None) -> None:
        self._topics = topics
        self._signing = signing
        self._clock_ms = clock_ms
        self._outage = Outage("writing answers", clock_ms)
        self._refusal = Outage("writing answers that are refused", clock_ms)
        self._refused: list[Answer] = []
        self._unknown: deque[tuple[Answer, BaseException]] = deque()
        """Answers whose partition ``cb.op`` does not have."""
        self._refused_now = 0
        self._again_ms = 0
        self._waiting: SimpleQueue[Answer | None] = SimpleQueue()
        self._failure: BaseException | None = None
        self._closing = threading.Event()
        self._lock = threading.Lock()
        self._unwritten = 0

    @property
    def unwritten(self) -> int:
        """Answers that Kafka does not have yet."""
        return self._unwritten

    @property
    def full(self) -> bool:
        """Whether so many answers are refused that no check should be read again."""
        return self._refused_now >= _MOST_REFUSED

    def put(self, answer: Answer) -> None:
        """Have this one written."""
        self._count(1)
        self._waiting.put(answer)

    def run(
        self, transport: TellingTransport, done: Callable[[Any], None], postponed: Callable[[Any, str], None]
    ) -> None:
        """Write until closed; both are called on some thread.

        Args:
            transport: writes them.
            done: gets the origin of each answer that Kafka has, or that no topic could take.
            postponed: gets the origin of each answer that is refused and not kept, and the reason.
        """
        self._postponed = postponed
        while (answer := self._next(transport, done)) is not None:
            failure, self._failure = self._failure, None
            if failure is not None:  # for all that failed together, one pause
                self._closing.wait(self._outage.failed(failure))
            self._write(transport, answer, done)

    def _next(self, transport: TellingTransport, done: Callable[[Any], None]) -> Answer | None:
        while True:
            transport.hear()
            while self._unknown:
                answer, error = self._unknown.popleft()
                if self._half_exists(transport, answer):
                    self._refuse(answer, error)
                else:
                    _LOGGER.warning("Skipped a record of %s: %s names no half message", self._topics.check, answer.half)
                    self._end(answer, done)
            if self._refused and self._clock_ms() >= self._again_ms:
                refused, self._refused = self._refused, []
                for answer in refused:
                    self.put(answer)
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
            if answer.refused:
                self._refused_now -= 1
                self._refusal.answered()
            self._end(answer, done)
            return
        code = error_code(error) if isinstance(error, KafkaException) else None
        if code not in NEVER_TAKEN:
            # without the right to write there no answer can be written: all of them wait for it
            missing = [write(self._topics.op, "")]
            self._failure = not_allowed("the check service", error, missing) if code in NOT_ALLOWED else error
            self._waiting.put(answer)
            return
        if code == KafkaError._UNKNOWN_PARTITION:
            self._unknown.append((answer, error))  # Kafka cannot be asked about cb.half here: librdkafka would abort
        else:
            self._refuse(answer, error)

    def _half_exists(self, transport: TellingTransport, answer: Answer) -> bool:
        with suppress(CheckbackError):  # Kafka does not answer now, so it is asked with the next try
            return answer.half.partition < transport.partitions(self._topics.half, self._topics.half)
        return True

    def _refuse(self, answer: Answer, error: BaseException) -> None:
        """Keep it for later: it waits for a change of ``cb.op``, and others do not."""
        self._count(-1)
        reason = OwnTopicError(
            f"{self._topics.op} refuses the answer to a check of {answer.half}: {error}. If it has fewer partitions "
            f"than {self._topics.half}, run 'checkback topics create'; else see 'checkback doctor'."
        )
        self._again_ms = self._clock_ms() + int(1000 * self._refusal.failed(reason))
        if not answer.refused and self.full:
            self._postponed(answer.origin, str(reason))
            return
        self._refused_now += not answer.refused
        self._refused.append(answer._replace(refused=True))

    def _end(self, answer: Answer, done: Callable[[Any], None]) -> None:
        self._count(-1)
        done(answer.origin)

    def _count(self, change: int) -> None:
        with self._lock:
            self._unwritten += change
