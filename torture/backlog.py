"""Backlogs of a fault run with large batches: written at once, and counted message by message at the consumers' end.

A transaction is its number: id, key, value, header and fate follow from it, so nobody has to remember a hundred
thousand of them.
"""

import threading
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from confluent_kafka import Consumer, Producer, TopicPartition

from checkback.exceptions import CheckbackError
from checkback.wire.protocol import ID, Action, HalfPosition, Source, Topics, half_headers, op_headers

TOPIC = "orders"
_ROLLED_BACK = 10
"""Of so many transactions one is rolled back."""
_PADDING = b"." * 60
_POLL_SECONDS = 0.1
_LOOK_SECONDS = 10.0


@dataclass(frozen=True)
class Backlog:
    """So many transactions, the ``number``-th backlog of its run."""

    number: int
    transactions: int

    def committed(self) -> npt.NDArray[np.bool_]:
        """bool[transactions]: which of them must be delivered."""
        return np.not_equal(np.arange(self.transactions) % _ROLLED_BACK, 0)

    def id(self, index: int) -> str:
        """Of one transaction."""
        return f"{self.number:06d}-{index:08d}"


def key_of(index: int) -> bytes:
    """The key of a transaction's message."""
    return b"customer-%d" % (index % 5000)


def value_of(name: str) -> bytes:
    """Its value."""
    return name.encode() + _PADDING


class BacklogWriter:
    """Writes backlogs. Nobody else may write to the half topic: offsets are counted, and compared in the end."""

    def __init__(self, bootstrap_servers: str, half_partitions: int) -> None:
        self._topics = Topics()
        self._places = [TopicPartition(self._topics.half, number) for number in range(half_partitions)]
        client = {"bootstrap.servers": bootstrap_servers, "log_level": 2}
        self._ends = Consumer({**client, "group.id": "backlog"})
        settings = {"enable.idempotence": True, "linger.ms": 20, "queue.buffering.max.messages": 1_000_000}
        self._producer = Producer({**client, **settings})

    def write(self, backlog: Backlog) -> None:
        """All half messages, then all ops.

        Raises:
            CheckbackError: somebody else has written half messages meanwhile.
        """
        first = self._half_ends()
        count = len(self._places)
        for index in range(backlog.transactions):
            name = backlog.id(index)
            headers = half_headers(name, "shop", TOPIC, [("name", name.encode())])
            self._send(self._topics.half, value_of(name), key_of(index), index % count, headers)
        self._producer.flush()
        for index, commit in enumerate(backlog.committed().tolist()):
            half = HalfPosition(index % count, first[index % count] + index // count)
            action = Action.COMMIT if commit else Action.ROLLBACK
            headers = op_headers(backlog.id(index), "shop", half, action, Source.PRODUCER)
            self._send(self._topics.op, b"", None, half.partition, headers)
        self._producer.flush()
        if sum(self._half_ends()) != sum(first) + backlog.transactions:
            raise CheckbackError("Somebody else has written half messages: the backlog's ops name other offsets.")

    def close(self) -> None:
        """Close the connections."""
        self._ends.close()

    def _half_ends(self) -> list[int]:
        return [self._ends.get_watermark_offsets(place, _LOOK_SECONDS)[1] for place in self._places]

    def _send(
        self, topic: str, value: bytes, key: bytes | None, partition: int, headers: Sequence[tuple[str, bytes]]
    ) -> None:
        while True:
            try:
                self._producer.produce(topic, value, key, partition, headers=list(headers))
                break
            except BufferError:
                self._producer.poll(0.1)


@dataclass
class Verdict:
    """What consumers got of one backlog, in numbers of messages."""

    committed: int
    delivered: int
    lost: int = 0
    repeated: int = 0
    leaked: int = 0
    changed: int = 0

    @property
    def holds(self) -> bool:
        """Whether every committed message came once, as it was sent, and no other."""
        return not (self.lost or self.repeated or self.leaked or self.changed)

    def __str__(self) -> str:
        return f"{self.lost} lost, {self.repeated} repeated, {self.leaked} leaked, {self.changed} changed"


@dataclass
class _Count:
    backlog: Backlog
    copies: npt.NDArray[np.uint8] = field(init=False)
    """uint8[transactions]: how often each was delivered."""
    changed: int = 0

    def __post_init__(self) -> None:
        self.copies = np.zeros(self.backlog.transactions, dtype=np.uint8)

    def verdict(self) -> Verdict:
        committed = self.backlog.committed()
        return Verdict(
            committed=int(committed.sum()),
            delivered=int(self.copies.sum()),
            lost=int((self.copies[committed] == 0).sum()),
            repeated=int((self.copies > 1).sum()),
            leaked=int((self.copies[~committed] > 0).sum()),
            changed=self.changed,
        )


class Counting(threading.Thread):
    """A ``read_committed`` consumer of the real topic that counts every copy of every backlog's messages."""

    def __init__(self, bootstrap_servers: str, partitions: int) -> None:
        super().__init__(name="torture-counting", daemon=True)
        self._client = {"bootstrap.servers": bootstrap_servers, "group.id": "torture", "log_level": 0}
        self._positions = dict.fromkeys(range(partitions), 0)
        self._stopping = threading.Event()
        self._counts: dict[int, _Count] = {}
        self.unknown = 0
        """Messages of no backlog at all."""

    def expect(self, backlog: Backlog) -> None:
        """Before it is written."""
        self._counts[backlog.number] = _Count(backlog)

    def verdict(self, number: int) -> Verdict:
        """Of one backlog, as far as its messages have come."""
        return self._counts[number].verdict()

    def verdicts(self) -> Iterator[Verdict]:
        """Of all backlogs: a late copy of an early one counts, too."""
        return (count.verdict() for count in list(self._counts.values()))

    def at_end(self) -> bool:
        """Whether all that is readable now has been counted: the end is asked for, not guessed from silence."""
        with closing(self._consumer()) as consumer:
            ends = {
                number: consumer.get_watermark_offsets(TopicPartition(TOPIC, number), _LOOK_SECONDS)[1]
                for number in self._positions
            }
        return all(self._positions[number] >= end for number, end in ends.items())

    def run(self) -> None:
        """Count until stopped."""
        with closing(self._consumer()) as consumer:
            consumer.assign([TopicPartition(TOPIC, number, at) for number, at in self._positions.items()])
            while not self._stopping.is_set():
                for message in consumer.consume(5_000, _POLL_SECONDS):
                    if message.error() is None:
                        self._take(message)
                for place in consumer.position([TopicPartition(TOPIC, number) for number in self._positions]):
                    # past the markers of transactions, which are not messages
                    self._positions[place.partition] = max(self._positions[place.partition], place.offset)

    def stop(self) -> None:
        """Stop, and wait for it."""
        self._stopping.set()
        self.join()

    def _take(self, message: Any) -> None:
        headers = dict(message.headers() or [])
        name = headers[ID].decode()
        number, _, index = name.partition("-")
        count = self._counts.get(int(number))
        if count is None:
            self.unknown += 1
            return
        count.copies[int(index)] += 1
        expected = (key_of(int(index)), value_of(name), {ID: name.encode(), "name": name.encode()})
        count.changed += (message.key(), message.value(), headers) != expected

    def _consumer(self) -> Consumer:
        settings = {"isolation.level": "read_committed", "enable.auto.commit": False, "auto.offset.reset": "earliest"}
        return Consumer({**self._client, **settings, "fetch.wait.max.ms": 100, "reconnect.backoff.max.ms": 500})
