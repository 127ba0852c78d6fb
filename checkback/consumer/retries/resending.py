"""Resends dead letters: each in one Kafka transaction with the mark that says so."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from time import monotonic, sleep
from types import TracebackType
from typing import NamedTuple, Self

from checkback.consumer.clients.base import FencedError, KafkaAwayError, RecordRefusedError
from checkback.consumer.clients.sender import Sender
from checkback.consumer.listener import ReceivedMessage
from checkback.consumer.retries.dead_letter_topic import DeadLetterTopic
from checkback.consumer.retries.dead_letters import DeadLetter, LetterPlace, Letters, Mark, To, mark_of, parcels, resent
from checkback.consumer.retry import OwnTopics, SentBack
from checkback.exceptions import ConsumerError, OperatorError, ProtocolError
from checkback.kafka.kafka_python.library import KafkaConsumer
from checkback.wire.protocol import Topics

_MOST_LETTERS = 250
_MOST_BYTES = 8 << 20
_SETTLED_SECONDS = 30.0
"""For other people's transactions to end: consumers' take 10 s at most, and brokers look every 10 s."""
_LOOK_SECONDS = 0.1


class Became(StrEnum):
    """What became of a letter."""

    RESENT = "resent"
    BEFORE = "was resent by somebody else meanwhile"
    GONE = "is gone"
    REFUSED = "refused"


class Outcome(NamedTuple):
    """What became of one."""

    letter: DeadLetter
    became: Became
    why: str = ""


class Resend(NamedTuple):
    """What is to be done."""

    own: OwnTopics
    topics: Topics
    to: To
    by: str
    """Who does it."""


def transactional_id(topics: Topics, group: str) -> str:
    """The name under which one at a time resends the letters of a group; as those of its consumers begin."""
    return f"{topics.prefix}consumer.{group}.resend"


class Resending:
    """Resends letters of one group; use it as a context manager.

    Each letter is resent once, however many do this at a time, and whenever one of them is killed:

    1. Another producer of the same transactional id is made. From then on nobody before it writes anything, and what
       they had under way is committed or is not.
    2. Only then the topic is read on to its end, when all before that has been decided: so every mark is seen that
       there is, and but for this one's own there will be none.
    3. What has no mark is written, with its mark, in one transaction.

    A letter whose mark is another than it was in ``found`` has been resent meanwhile, and is passed over.

    Args:
        connect: makes the transactional producer, and with it does 1.
        reading: the letters; reads committed.
        uncommitted: a consumer without a group that reads what is not committed, too.
        found: what the letters were chosen from.
        resend: what is to be done.
    """

    def __init__(
        self,
        connect: Callable[[], Sender],
        reading: DeadLetterTopic,
        uncommitted: KafkaConsumer,
        found: Letters,
        resend: Resend,
    ) -> None:
        self._connect = connect
        self._reading = reading
        self._uncommitted = uncommitted
        self._found = found
        self._known = dict(found.marks)
        self._resend = resend
        self._sender: Sender | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._drop_sender()

    def run(self, letters: Sequence[DeadLetter], partitions: Mapping[str, Sequence[int]]) -> Iterator[Outcome]:
        """Resend these; gives what became of each as it is known.

        ``partitions``: of the topics that they came from.

        Raises:
            OperatorError: somebody else has begun to resend this group's letters.
            KafkaAwayError: whether those of the last transaction were resent is not known; to do it again is safe.
        """
        for parcel in parcels(letters, _MOST_LETTERS, _MOST_BYTES):
            yield from self._parcel(parcel, partitions)

    def _parcel(self, parcel: Sequence[DeadLetter], partitions: Mapping[str, Sequence[int]]) -> list[Outcome]:
        contents = self._reading.contents({letter.place for letter in parcel})
        refused: dict[LetterPlace, str] = {}
        one_by_one = False
        while True:
            sender = self._begun()
            outcomes: list[Outcome] = []
            records: list[SentBack] = []
            for letter in parcel:
                outcome, pair = self._of(letter, contents.get(letter.place), refused, partitions)
                outcomes.append(outcome)
                records += pair
            if not records:
                return outcomes
            try:
                self._write(sender, records, one_by_one=one_by_one)
            except RecordRefusedError as error:
                going = [one.letter.place for one in outcomes if one.became is Became.RESENT]
                if one_by_one or len(going) == 1:
                    refused[going[error.number // 2]] = f"{records[error.number].topic} does not take it ({error})"
                one_by_one = True
            else:
                return outcomes

    def _write(self, sender: Sender, records: Sequence[SentBack], *, one_by_one: bool) -> None:
        try:
            sender.send(records, {}, None, one_by_one=one_by_one)
        except RecordRefusedError:
            # its producer is of no use any more; the next one fences again, so marks are read again as well
            self._drop_sender()
            raise
        except FencedError as error:
            raise OperatorError(
                f"Somebody else has begun to resend dead letters of {self._resend.own.group} (or Kafka has ended this "
                "one's transaction, which took too long). This stops here: do it again when they are done; what was "
                "resent is passed over."
            ) from error
        except KafkaAwayError as error:
            raise KafkaAwayError(
                f"It is not known whether the last of them were resent ({error}). Do it again: what was is passed over."
            ) from error
        if sender.spent:  # another resend may fence in between, so the marks are read again, too
            self._drop_sender()

    def _of(
        self,
        letter: DeadLetter,
        lies: ReceivedMessage | None,
        refused: Mapping[LetterPlace, str],
        partitions: Mapping[str, Sequence[int]],
    ) -> tuple[Outcome, list[SentBack]]:
        own, topics, to, by = self._resend
        mark = self._found.marks.get(letter.place)
        if mark != self._known.get(letter.place):
            return Outcome(letter, Became.BEFORE, _who(mark)), []
        if lies is None:
            return Outcome(letter, Became.GONE, "retention, or somebody, has deleted it"), []
        try:
            record = resent(lies, own, topics, to, partitions)
        except ProtocolError as error:
            return Outcome(letter, Became.REFUSED, str(error)), []
        if letter.place in refused:
            return Outcome(letter, Became.REFUSED, refused[letter.place]), []
        to_topic = own.retry if to is To.RETRY else record.topic
        return Outcome(letter, Became.RESENT), [record, mark_of(letter.place, own, to_topic, by)]

    def _begun(self) -> Sender:
        if self._sender is None:
            try:
                self._sender = self._connect()
            except (KafkaAwayError, ConsumerError) as error:
                raise KafkaAwayError(f"Kafka refused this command's transaction ({error}). Try again.") from error
            self._reading.read_on(self._found, self._settled_ends())
        return self._sender

    def _settled_ends(self) -> dict[int, int]:
        """Where the partitions end now, when all before that is committed or aborted."""
        partitions = self._reading.partitions
        ends = self._uncommitted.end_offsets(partitions)
        until = monotonic() + _SETTLED_SECONDS
        while self._reading.held_back(ends):
            if monotonic() > until:
                raise KafkaAwayError(
                    f"{partitions[0].topic} is held back by somebody's open transaction, so that it is not known what "
                    "was resent already. Do it again in a minute."
                )
            sleep(_LOOK_SECONDS)
        return {partition.partition: end for partition, end in ends.items()}

    def _drop_sender(self) -> None:
        if self._sender is not None:
            self._sender.close()
        self._sender = None


def _who(mark: Mark | None) -> str:
    return "" if mark is None else mark.by
