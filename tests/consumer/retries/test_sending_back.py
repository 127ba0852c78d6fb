"""Who may send back: only what belongs to a consumer by the membership that proves it."""

import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from time import monotonic
from typing import Any

import pytest

from checkback.consumer import ConsumerSettings, ReceivedMessage
from checkback.consumer.clients.base import KafkaAwayError
from checkback.consumer.listener import TopicPartition
from checkback.consumer.offsets.metadata import Stored
from checkback.consumer.offsets.storing import StoringTurns
from checkback.consumer.offsets.work import Parcel, PartitionWork, WorkRules
from checkback.consumer.retries.sending_back import SendingBack, SendingClients, SentBackParcel
from checkback.consumer.retry import OwnTopics, SentBack
from checkback.wire.protocol import Topics
from tests.consumer.waiting import soon

PLACE = TopicPartition("orders", 0)
SETTINGS = ConsumerSettings()


class Sender:
    """Takes everything, and remembers by which membership it came."""

    spent = False

    def __init__(self) -> None:
        self.sent: list[tuple[object, list[bytes | None]]] = []
        self.connected = self.closed = self.logs_taken = 0

    def take_log(self) -> None:
        self.logs_taken += 1

    def connect(self) -> "Sender":
        self.connected += 1
        return self

    def send(
        self,
        records: Sequence[SentBack],
        offsets: Mapping[TopicPartition, Stored],
        membership: object,
        *,
        one_by_one: bool = False,
    ) -> None:
        assert offsets
        assert not one_by_one
        self.sent.append((membership, [record.value for record in records]))

    def close(self) -> None:
        self.closed += 1


def failed_parcel(work: PartitionWork, offset: int) -> Parcel:
    (parcel,) = work.take([ReceivedMessage(*PLACE, offset, b"key", b"%d" % offset)])
    assert work.begin(parcel, monotonic())
    assert work.put_down(parcel)
    return parcel


@contextmanager
def sending(
    sender: Any,
    membership: Callable[[], object],
    parcels: Sequence[Parcel],
    stored: Callable[[Collection[TopicPartition]], dict[TopicPartition, Stored]] = lambda _: {},
    failed: Callable[[Parcel], None] = lambda _: None,
) -> Iterator[list[Parcel]]:
    """Runs until the block ends; gives what it reports as sent."""
    told: list[Parcel] = []

    def sent(report: SentBackParcel) -> None:
        told.append(report.parcel)

    clients = SendingClients(sender.connect, membership, stored, lambda: None)
    own = OwnTopics.of(Topics(), "points")
    sends = SendingBack(clients, own, SETTINGS, sent, failed, StoringTurns())
    stopping = threading.Event()
    for parcel in parcels:
        sends.give(parcel)
    thread = threading.Thread(target=sends.run, args=(stopping,))
    thread.start()
    try:
        yield told
    finally:
        stopping.set()
        thread.join()


def test_what_the_group_takes_while_membership_is_asked_for_is_not_sent_by_it() -> None:
    """A consumer that the group has gone on without, and that has joined it again, proves nothing of before."""
    gone, kept = (PartitionWork(PLACE, Stored(0), WorkRules(SETTINGS)) for _ in range(2))
    sender = Sender()

    def membership() -> object:
        gone.stop()
        return "the new one"

    parcels = [failed_parcel(gone, 1), failed_parcel(kept, 2)]
    with sending(sender, membership, parcels) as told:
        soon(lambda: told)
    assert told == parcels[1:]
    assert sender.sent == [("the new one", [b"2"])]


def test_after_a_lost_connection_another_producer_fences_at_once() -> None:
    """Until it does, a late TxnOffsetCommit may still move the group's offsets back."""
    work, sender = PartitionWork(PLACE, Stored(0), WorkRules(SETTINGS)), Sender()
    sender.spent = True
    with sending(sender, lambda: "member", [failed_parcel(work, 1)]) as told:
        soon(lambda: told)
    assert (sender.connected, sender.closed) == (2, 1)


def test_the_log_of_an_idle_producer_is_taken() -> None:
    """Librdkafka keeps its debug lines until then: 500 a second while brokers are away."""
    work, sender = PartitionWork(PLACE, Stored(0), WorkRules(SETTINGS)), Sender()
    with sending(sender, lambda: "member", [failed_parcel(work, 1)]):
        soon(lambda: sender.logs_taken > 1)


class FailsOnce(Sender):
    """The first transaction fails; what became of it is what is stored then."""

    def __init__(self) -> None:
        super().__init__()
        self.offsets: dict[TopicPartition, Stored] = {}

    def send(
        self,
        records: Sequence[SentBack],
        offsets: Mapping[TopicPartition, Stored],
        membership: object,
        *,
        one_by_one: bool = False,
    ) -> None:
        if not self.offsets:
            self.offsets = dict(offsets)
            raise KafkaAwayError("the group has gone on without this consumer")
        super().send(records, offsets, membership, one_by_one=one_by_one)


@pytest.mark.parametrize("found", ["before", "its own", "another's"])
def test_offsets_that_another_member_has_stored_are_not_taken_for_ones_own(found: str) -> None:
    """Else a partition that is lost just then, and comes back, goes on from where it was before the other had it."""
    work, sender, failed = PartitionWork(PLACE, Stored(0), WorkRules(SETTINGS)), FailsOnce(), list[Parcel]()
    parcel = failed_parcel(work, 0)

    def stored(_: object) -> dict[TopicPartition, Stored]:
        return {PLACE: {"before": Stored(0), "its own": sender.offsets[PLACE], "another's": Stored(7)}[found]}

    with sending(sender, lambda: "member", [parcel], stored, failed.append) as told:
        soon(lambda: told or failed)
    assert (told, failed) == (([parcel], []) if found == "its own" else ([], [parcel]))
    assert work.stored == (sender.offsets[PLACE] if found == "its own" else Stored(0))


def test_who_is_no_member_waits_until_it_is() -> None:
    answers = iter([KafkaAwayError("no member"), KafkaAwayError("no member")])

    def membership() -> object:
        error = next(answers, None)
        if error is not None:
            raise error
        return "member"

    sender = Sender()
    parcels = [failed_parcel(PartitionWork(PLACE, Stored(0), WorkRules(SETTINGS)), 1)]
    with sending(sender, membership, parcels) as told:
        soon(lambda: told)
    assert sender.sent == [("member", [b"1"])]
