"""What a pull makes of answers that a Kafka rarely gives."""

from collections.abc import Sequence

import pytest

from checkback.consumer import PullConsumer, PullResult, PullStatus
from checkback.consumer.listener import ReceivedMessage, TopicPartition
from checkback.consumer.pull.client import LogRead, PullClient
from checkback.exceptions import KafkaUnreachableError
from checkback.kafka.bounds import Bounds


class Scripted(PullClient):
    """A client that gives its answers one after the other, the last one for ever."""

    def __init__(self, bounds: list[Bounds | None], reads: list[LogRead]) -> None:
        self._bounds, self._reads = bounds, reads
        self.asked: list[int] = []

    def partitions(self, topic: str) -> Sequence[int]:
        return [0]

    def bounds(self, partition: TopicPartition) -> Bounds | None:
        return self._bounds.pop(0) if len(self._bounds) > 1 else self._bounds[0]

    def read(self, partition: TopicPartition, offset: int, most: int, seconds: float) -> LogRead:
        self.asked.append(offset)
        return self._reads.pop(0) if len(self._reads) > 1 else self._reads[0]

    def close(self) -> None:
        pass


def pull(client: Scripted, wait_ms: int = 0) -> PullResult:
    return PullConsumer("", client=client).pull("orders", 0, 5, wait_ms=wait_ms)


MESSAGE = ReceivedMessage("orders", 0, 8, None, b"v")
KEPT = Bounds(0, 10)


def test_it_reads_on_over_offsets_without_messages() -> None:
    client = Scripted([KEPT], [LogRead((), 7), LogRead([MESSAGE], 9)])
    assert pull(client) == PullResult(PullStatus.FOUND, 9, 0, 10, [MESSAGE])
    assert client.asked == [5, 7]


def test_the_maximum_is_never_before_what_was_found() -> None:
    assert pull(Scripted([Bounds(0, 6)], [LogRead([MESSAGE], 9)])).max_offset == 9


def test_a_log_that_lost_its_end_meanwhile_is_said_as_it_is() -> None:
    client = Scripted([KEPT, Bounds(0, 3)], [LogRead((), 5, gone=True)])
    assert pull(client) == PullResult(PullStatus.OFFSET_OVERFLOW_BADLY, 0, 0, 3)


def test_a_partition_that_went_meanwhile_is_none() -> None:
    client = Scripted([KEPT, None], [LogRead((), 5, gone=True)])
    assert pull(client) == PullResult(PullStatus.NO_MATCHED_LOGIC_QUEUE, 0, 0, 0)


def test_an_offset_that_is_gone_once_is_asked_for_again() -> None:
    client = Scripted([KEPT], [LogRead((), 5, gone=True), LogRead([MESSAGE], 9)])
    assert pull(client).status is PullStatus.FOUND
    with pytest.raises(KafkaUnreachableError, match="offset 5 of orders-0"):
        pull(Scripted([KEPT], [LogRead((), 5, gone=True)]))


def test_what_came_behind_the_end_of_a_wait_is_read() -> None:
    client = Scripted([Bounds(0, 5), Bounds(0, 9)], [LogRead((), 5), LogRead([MESSAGE], 9)])
    assert pull(client, wait_ms=1) == PullResult(PullStatus.FOUND, 9, 0, 9, [MESSAGE])
