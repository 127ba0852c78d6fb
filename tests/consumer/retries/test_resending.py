"""What resending does with what Kafka says, without a Kafka."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, cast

import pytest
from kafka import TopicPartition

from checkback.consumer import ReceivedMessage
from checkback.consumer.clients.base import FencedError, KafkaAwayError, RecordRefusedError
from checkback.consumer.retries.dead_letter_topic import DeadLetterTopic
from checkback.consumer.retries.dead_letters import (
    DeadLetter,
    LetterPlace,
    Letters,
    Mark,
    To,
    lies_there,
    mark_of,
    said_by,
)
from checkback.consumer.retries.resending import (
    _MOST_LETTERS,
    Became,
    Outcome,
    Resend,
    Resending,
    transactional_id,
)
from checkback.consumer.retry import OwnTopics, SentBack, dead_letter
from checkback.exceptions import CheckbackError, OperatorError
from checkback.wire.protocol import Topics

TOPICS = Topics()
OWN = OwnTopics.of(TOPICS, "points")
DLQ = TopicPartition("cb.dlq.points", 0)


class Log:
    """The topic of dead letters, its reader, and the producers of its one transactional id.

    What it lacks: other partitions, transactions of others.
    """

    def __init__(self, letters: int) -> None:
        self.records: list[ReceivedMessage] = []
        self.elsewhere: list[SentBack] = []
        self.failures: list[CheckbackError | None] = []
        """Of the next transactions, one each."""
        self.connected = 0
        self.spent = False
        self.one_by_one: list[bool] = []
        self.partitions = [DLQ]
        for number in range(letters):
            first = ReceivedMessage("shop.orders", 0, number, None, b"%d" % number, [("cb-id", b"tx-%d" % number)], 1)
            self.append(dead_letter(first, OWN, "no"))

    def append(self, record: SentBack) -> None:
        at = (record.topic, 0, len(self.records))
        self.records.append(ReceivedMessage(*at, record.key, record.value, record.headers, 1_000))

    def found(self) -> Letters:
        said = [said_by(one) for one in self.records]
        return Letters(
            {one.place: one for one in said if isinstance(one, DeadLetter)},
            {one.letter: one for one in said if isinstance(one, Mark)},
            {0: len(self.records)},
        )

    def end_offsets(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, len(self.records))

    def held_back(self, ends: Mapping[TopicPartition, int]) -> bool:
        return False

    def read_on(self, found: Letters, ends: Mapping[int, int]) -> None:
        for record in self.records[found.ends[0] : ends[0]]:
            said = said_by(record)
            if isinstance(said, Mark):
                found.marks[said.letter] = said
        found.ends[0] = ends[0]

    def contents(self, places: Collection[LetterPlace]) -> dict[LetterPlace, ReceivedMessage]:
        return {place: self.records[place.offset] for place in places if self.records[place.offset].value != b"deleted"}

    def connect(self) -> "Log":
        self.connected += 1
        return self

    def send(self, records: Sequence[SentBack], offsets: object, membership: object, *, one_by_one: bool) -> None:
        self.one_by_one.append(one_by_one)
        failure = self.failures.pop(0) if self.failures else None
        if failure is not None:
            raise failure
        for record in records:
            if record.topic == DLQ.topic:
                self.append(record)
            else:
                self.elsewhere.append(record)

    def close(self) -> None:
        pass


def resending(log: Log, found: Letters, to: To = To.RETRY) -> Resending:
    clients: Any = log
    return Resending(clients.connect, cast("DeadLetterTopic", log), clients, found, Resend(OWN, TOPICS, to, "ada"))


def run(log: Log, found: Letters | None = None) -> list[Outcome]:
    found = found or log.found()
    with resending(log, found) as ours:
        return list(ours.run([one for place, one in found.letters.items() if place not in found.marks], {}))


def became(outcomes: Sequence[Outcome]) -> list[Became]:
    return [one.became for one in outcomes]


def test_each_letter_and_its_mark_are_written_together_once() -> None:
    log = Log(600)
    assert became(run(log)) == [Became.RESENT] * 600
    assert [one.value for one in log.elsewhere] == [b"%d" % number for number in range(600)]
    assert len(log.found().marks) == 600
    assert log.connected == 1
    assert len(log.one_by_one) == 3
    assert run(log) == []


def test_what_somebody_has_resent_meanwhile_is_passed_over() -> None:
    log = Log(3)
    found = log.found()
    log.append(mark_of(LetterPlace(0, 1), OWN, OWN.retry, "eve"))
    outcomes = run(log, found)
    assert became(outcomes) == [Became.RESENT, Became.BEFORE, Became.RESENT]
    assert outcomes[1].why == "eve"
    assert [one.value for one in log.elsewhere] == [b"0", b"2"]


def test_one_that_was_resent_before_is_resent_again_unless_somebody_has_just_done_so() -> None:
    log = Log(2)
    log.append(mark_of(LetterPlace(0, 0), OWN, OWN.retry, "ada"))
    log.append(mark_of(LetterPlace(0, 1), OWN, OWN.retry, "ada"))
    found = log.found()
    log.append(mark_of(LetterPlace(0, 1), OWN, OWN.retry, "eve"))
    with resending(log, found) as ours:
        outcomes = list(ours.run(list(found.letters.values()), {}))
    assert became(outcomes) == [Became.RESENT, Became.BEFORE]


@pytest.mark.parametrize(
    ("more", "value"), [([("cb-id", b"1")], None), ([("checkback-reason", b"x")], None), ([], b"v")]
)
def test_a_half_message_of_anybodys_hides_no_letter(more: list[tuple[str, bytes | None]], value: bytes | None) -> None:
    """The job delivers to this topic, and writes there what it rejects: whoever sends it needs no right on it."""
    log = Log(1)
    forged = mark_of(LetterPlace(0, 0), OWN, OWN.retry, "eve")
    log.append(forged._replace(headers=[*forged.headers, *more], value=value))
    assert len(log.found().letters) == 2


def test_what_a_topic_refuses_is_found_and_the_others_go() -> None:
    log = Log(3)
    log.failures = [RecordRefusedError(0, "too large"), RecordRefusedError(2, "too large")]
    outcomes = run(log)
    assert became(outcomes) == [Became.RESENT, Became.REFUSED, Became.RESENT]
    assert outcomes[1].why == "cb.later does not take it (too large)"
    assert log.one_by_one == [False, True, True]
    assert log.connected == 3
    assert [one.value for one in log.elsewhere] == [b"0", b"2"]


def test_after_a_refusal_marks_are_read_again() -> None:
    log = Log(2)
    log.failures = [RecordRefusedError(0, "too large")]
    found = log.found()

    def connect() -> Log:
        if log.connected == 1:  # somebody resends between our two producers
            log.append(mark_of(LetterPlace(0, 1), OWN, OWN.retry, "eve"))
        return log.connect()

    clients: Any = log
    with Resending(cast("Any", connect), clients, clients, found, Resend(OWN, TOPICS, To.RETRY, "ada")) as ours:
        assert became(list(ours.run(list(found.letters.values()), {}))) == [Became.RESENT, Became.BEFORE]


def test_after_a_lost_connection_another_producer_fences_and_marks_are_read_again() -> None:
    """A late EndTxn of the one transaction would end the next one of that producer."""
    log = Log(_MOST_LETTERS + 1)
    log.spent = True
    found = log.found()

    def connect() -> Log:
        if log.connected == 1:
            log.append(mark_of(LetterPlace(0, _MOST_LETTERS), OWN, OWN.retry, "eve"))
        return log.connect()

    clients: Any = log
    with Resending(cast("Any", connect), clients, clients, found, Resend(OWN, TOPICS, To.RETRY, "ada")) as ours:
        outcomes = became(list(ours.run(list(found.letters.values()), {})))
    assert outcomes == [*[Became.RESENT] * _MOST_LETTERS, Became.BEFORE]


def test_what_was_deleted_is_gone() -> None:
    log = Log(2)
    found = log.found()
    log.records[0] = log.records[0]._replace(value=b"deleted")
    assert became(run(log, found)) == [Became.GONE, Became.RESENT]


def test_nothing_is_written_when_nothing_can_be() -> None:
    log = Log(1)
    found = log.found()
    with resending(log, found, To.ORIGIN) as ours:
        (outcome,) = ours.run(list(found.letters.values()), {"shop.orders": []})
    assert outcome.became is Became.REFUSED
    assert outcome.why == "shop.orders has no partition 0 any more"
    assert log.one_by_one == []


def test_whom_somebody_has_fenced_says_so() -> None:
    log = Log(1)
    log.failures = [FencedError("fenced")]
    with pytest.raises(OperatorError, match="Somebody else has begun to resend dead letters of points"):
        run(log)


def test_whether_the_last_were_resent_may_be_unknown() -> None:
    log = Log(300)
    log.failures = [None, KafkaAwayError("no answer")]
    found = log.found()
    with resending(log, found) as ours:
        outcomes = ours.run(list(found.letters.values()), {})
        assert became([next(outcomes) for _ in range(250)]) == [Became.RESENT] * 250
        with pytest.raises(KafkaAwayError, match="It is not known whether the last of them were resent") as error:
            next(outcomes)
    assert error.value.retriable


def test_the_transactional_id_is_one_that_consumers_rights_are_for() -> None:
    assert transactional_id(TOPICS, "points") == "cb.consumer.points.resend"


def test_a_client_s_record_is_read_as_it_lies_there() -> None:
    class Record:
        topic, partition, offset, key, value, headers, timestamp = "cb.dlq.points", 0, 3, b"k", None, [("a", b"1")], 9

    assert lies_there(Record()) == ReceivedMessage("cb.dlq.points", 0, 3, b"k", None, [("a", b"1")], 9)
