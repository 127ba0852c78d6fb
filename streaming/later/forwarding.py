"""Moves half messages from ``cb.later`` to ``cb.half``, each once.

Consumers write there what they are to get again later, within a Kafka transaction that also stores their offsets. One
that dies in the midst of it holds back whoever reads committed behind it. On a topic of its own that is retries only;
on ``cb.half`` it would be everybody's transactions. Here each transaction is a moment long.
"""

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from time import monotonic, time_ns

from checkback.exceptions import CheckbackError, JobFailedError, OwnTopicError, TransactionTimeoutError
from checkback.kafka.librdkafka.errors import FENCED, METADATA_REFUSED, NOT_ALLOWED, OF_THE_RECORD, error_code
from checkback.kafka.librdkafka.library import KafkaException
from checkback.kafka.librdkafka.transactional import SpentEpochError, StuckError
from checkback.kafka.outages import Outage
from checkback.wire import protocol
from checkback.wire.groups import metadata_refused
from checkback.wire.sent_back import dead_letter_of, why_not_a_retry
from conf.secrets_file import own_key
from streaming.batch.headers import Headers
from streaming.batch.heads import head_of
from streaming.batch.record import RANDOM_OR_KEYED, Record
from streaming.batch.signing import Signing
from streaming.brokers.client import SinkSettings
from streaming.kafka_sink.transaction import TopicsRefusedError
from streaming.later.clients import TRANSACTION_MS, ChangedError, LaterClients, Memory, Place, Retry, transactional_id

_LOGGER = logging.getLogger(__name__)
_RENEWAL_SECONDS = 30.0
_LOOK_SECONDS = 5.0
_AGAIN_SECONDS = 1.0
_AWAY_SECONDS = 60.0
_HEAD_BYTES = 128 << 10
"""Of a record that is written with its head only."""
MOST_AT_ONCE = 500
_QUICK = 0.25
"""Of a transaction's time: with twice as many it does not run out."""


class _AgainError(Exception):
    """Records were refused, and nothing was moved."""


class Forwarder:
    """A thread that reads ``cb.later`` as the group ``<prefix>later``, until it is stopped.

    Kafka may go away and come back, and end a transaction that this machine has slept through. Another one on the same
    topics, of a job that has taken over, ends this one: ``refuse_another`` raises TakenOverError then. What is signed
    bears ``kafka_clock_ms``.

    After a transaction that failed nothing that was read is written again: meanwhile another job may have moved it. All
    begins anew with the question whether there is one, with clients that fence it, and with the offsets that are stored
    then. What is kept is only how many to try, and which topics have refused a record.
    """

    def __init__(
        self,
        settings: SinkSettings,
        memory: Memory,
        refuse_another: Callable[[], None],
        kafka_clock_ms: Callable[[], int],
    ) -> None:
        self._settings = settings
        self._memory = memory
        self._key = own_key(settings.access)
        self._refuse_another = refuse_another
        self._kafka_clock_ms = kafka_clock_ms
        self._stopping = threading.Event()
        self._failure: CheckbackError | None = None
        self._outage = Outage(f"moving {settings.topics.later}", lambda: time_ns() // 1_000_000)
        self._at_once = MOST_AT_ONCE
        self._refusals: dict[Place, dict[str, str]] = {}
        """Topics that have refused a record, and why; of records that were not moved yet."""
        self._not_again: list[str] = []
        """What is to be said of records that go elsewhere."""
        self._away_until: dict[str, float] = {}
        self._thread = threading.Thread(target=self._run, name="checkback-later", daemon=True)
        self.moved = 0
        """Records so far."""

    def start(self) -> None:
        """Start the thread; returns at once."""
        self._thread.start()

    def stop(self, seconds: float = 5.0) -> None:
        """Finish the transaction in hand. Harmless when it was never started."""
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join(seconds)

    def raise_if_dead(self) -> None:
        """Raise what ended it, if anything did.

        Raises:
            TakenOverError: another job moves them now.
            JobStoppedError: going on would move some twice, or not at all.
            JobFailedError: Kafka does not allow it, or something else that does not pass by itself.
        """
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._refuse_another()
                with LaterClients(self._settings) as clients:
                    self._move(clients)
            except (_AgainError, SpentEpochError):
                continue
            except ChangedError:
                _LOGGER.warning("%s was made again, or has more partitions.", self._settings.topics.later)
            except (KafkaException, StuckError, TransactionTimeoutError) as error:
                self._failure = self._explained(error)
                if self._failure is not None:
                    return
                self._stopping.wait(self._pause(error))
            except CheckbackError as error:
                self._failure = error
                return
            except Exception as error:  # noqa: BLE001  (a thread that ends in silence leaves retries undelivered)
                self._failure = JobFailedError(f"Moving {self._settings.topics.later} failed: {error!r}.")
                self._failure.__cause__ = error
                return

    def _move(self, clients: LaterClients) -> None:
        clients.begin(self._memory)
        renewal_at, look_at = monotonic() + _RENEWAL_SECONDS, monotonic() + _LOOK_SECONDS
        while not self._stopping.is_set():
            records = clients.read(self._at_once)
            if records:
                self._write(clients, records)
                self.moved += len(records)
            elif monotonic() >= look_at:
                clients.look()
                look_at = monotonic() + _LOOK_SECONDS
            self._outage.answered()
            if monotonic() >= renewal_at:
                clients.renew_offsets()
                renewal_at = monotonic() + _RENEWAL_SECONDS

    def _write(self, clients: LaterClients, records: Sequence[Retry]) -> None:
        """Of many that are refused, fewer are tried next, down to single ones: too large together is not too large.

        Raises:
            _AgainError: nothing was moved; it can be tried at once.
            OwnTopicError: no topic takes a record, nor its head.
        """
        self._not_again.clear()
        refusals = [self._refusals.get(clients.place(record), {}) for record in records]
        moved = [self._moved(clients, record, refused) for record, refused in zip(records, refusals, strict=True)]
        self._tell_not_again()
        began = monotonic()
        try:
            clients.write(records, moved)
        except (TopicsRefusedError, KafkaException, TransactionTimeoutError) as error:
            self._at_once = after_failing(len(records))
            if isinstance(error, TopicsRefusedError):
                if len(records) == 1:
                    self._note_refusal(clients.place(records[0]), moved[0].topic, error)
                raise _AgainError from error
            raise
        if not any(refusals):  # else the next one is often refused, too
            self._at_once = after_success(self._at_once, (monotonic() - began) * 1000 / TRANSACTION_MS)
        for record in records:
            self._refusals.pop(clients.place(record), None)

    def _note_refusal(self, place: Place, topic: str, error: TopicsRefusedError) -> None:
        """So that another topic is tried. The dead letters of one group, whatever they lack, hold no other one back."""
        topics = self._settings.topics
        cause = error.topics.get(topic, error.cause)
        ours = topic in {topics.half, topics.rejected}
        if cause.code() in NOT_ALLOWED or (ours and cause.code() not in OF_THE_RECORD):
            raise KafkaException(cause) from error
        refused = self._refusals.setdefault(place, {})
        if topic == topics.rejected and topic in refused:
            raise OwnTopicError(
                f"A record of {topics.later} can be put nowhere: {'; '.join(refused.values())}. "
                "Correct those topics ('checkback topics create')."
            ) from error
        refused[topic] = f"{topic} does not take it ({cause.str()})"

    def _moved(self, clients: LaterClients, record: Retry, refused: Mapping[str, str]) -> Record:
        """To ``cb.half``; what that does not take, to the dead letters of the group that wanted it again.

        Else it is rejected: whole, or where ``cb.rejected`` has refused that, too, its head.
        """
        topics, headers = self._settings.topics, record.headers
        unread = "a header's name is not UTF-8" if headers is None else "it has no headers, or more than 100,000"
        wrong = why_not_a_retry(headers, topics) if headers else unread
        if headers and not wrong and not refused:
            place = record.partition % clients.half_partitions
            moved = Record(topics.half, place, record.key, record.value, headers)
            return moved if self._key is None else Signing(self._key, self._kafka_clock_ms()).signed(moved)
        why = "; ".join([*filter(None, [wrong]), *refused.values()])
        lies = f"{topics.later}:{record.partition}:{record.offset}"
        self._not_again.append(f"The record at {lies} cannot be tried again later: {why}")
        headers = headers or []
        letter = None if wrong else dead_letter_of(headers, topics, why)
        if letter is not None and letter[0] not in refused and self._takes(clients, letter[0]):
            return Record(letter[0], RANDOM_OR_KEYED, record.key, record.value, letter[1])
        said: Headers = [(protocol.REASON, why.encode()), (protocol.FROM, lies.encode())]
        rejected = Record(topics.rejected, RANDOM_OR_KEYED, record.key, record.value, [*said, *headers])
        return head_of(rejected, _HEAD_BYTES) if topics.rejected in refused else rejected

    def _tell_not_again(self) -> None:
        """One line for all of a transaction: who writes many such records is not to fill the log."""
        if self._not_again:
            more = len(self._not_again) - 1
            rest = f"; and {more} more, each with its reason in its dead letter or cb.rejected" if more else ""
            _LOGGER.error("%s%s", self._not_again[0], rest)

    def _takes(self, clients: LaterClients, topic: str) -> bool:
        """See :meth:`LaterClients.takes`; a topic that does not is asked about again after a minute."""
        if monotonic() < self._away_until.get(topic, 0.0):
            return False
        takes = clients.takes(topic)
        if not takes:
            self._away_until[topic] = monotonic() + _AWAY_SECONDS
        return takes

    def _explained(self, error: Exception) -> CheckbackError | None:
        """What ended it, or None for what may pass."""
        topics = self._settings.topics
        if isinstance(error, KafkaException) and error_code(error) in NOT_ALLOWED:
            return JobFailedError(
                f"Kafka does not allow the job to move {topics.later} ({error}): grant it read on that topic and on "
                f"the group {topics.later}, write on {topics.half} and {topics.prefix}dlq.*, and the transactional id "
                f"{transactional_id(topics)}."
            )
        if isinstance(error, KafkaException) and error_code(error) in METADATA_REFUSED:
            return metadata_refused("the job", error)
        return None

    def _pause(self, error: Exception) -> float:
        """Seconds until the next try. Fenced, the next one looks whether that was another job."""
        if isinstance(error, TransactionTimeoutError) or (
            isinstance(error, KafkaException) and error_code(error) in FENCED
        ):
            _LOGGER.warning(
                "Kafka has ended a transaction that moved %s, as it does when this machine stood still for %s s, or "
                "another job has taken over. If none has, it is made again, and nothing is lost.",
                *(self._settings.topics.later, TRANSACTION_MS // 1000),
            )
            return _AGAIN_SECONDS
        return self._outage.failed(error)


def after_failing(count: int) -> int:
    """How many to try after a transaction of so many that did not come through.

    Brokers that take few at a time need small ones; and in ever smaller ones a record that is refused is found.
    """
    return max(1, count // 2)


def after_success(at_once: int, share_of_time: float) -> int:
    """How many to try after a transaction that took this share of the time that it had."""
    return min(MOST_AT_ONCE, 2 * at_once) if share_of_time < _QUICK else at_once
