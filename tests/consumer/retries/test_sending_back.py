"""Who may send back: only what belongs to a consumer by the membership that proves it."""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from time import monotonic

from checkback.consumer import ConsumerSettings, ReceivedMessage
from checkback.consumer.clients import KafkaAwayError
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

    def __init__(self) -> None:
        self.sent: list[tuple[object, list[bytes | None]]] = []

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
        """Nothing is open."""


def failed_parcel(work: PartitionWork, offset: int) -> Parcel:
    (parcel,) = work.take([ReceivedMessage(*PLACE, offset, b"key", b"%d" % offset)])
    assert work.begin(parcel, monotonic())
    assert work.put_down(parcel)
    return parcel


@contextmanager
def sending(sender: Sender, membership: Callable[[], object], parcels: Sequence[Parcel]) -> Iterator[list[Parcel]]:
    """Runs until the block ends; gives what it reports as sent."""
    told: list[Parcel] = []

    def sent(report: SentBackParcel) -> None:
        told.append(report.parcel)

    clients = SendingClients(lambda: sender, membership, lambda _: {}, lambda: None)
    own = OwnTopics.of(Topics(), "points")
    sends = SendingBack(clients, own, SETTINGS, sent, lambda _: None, StoringTurns())
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
