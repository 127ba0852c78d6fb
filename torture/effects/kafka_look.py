"""What Kafka has of a consumer group: dead letters, stored offsets, and what is not done, message by message."""

from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from time import monotonic
from typing import NamedTuple

from kafka import KafkaConsumer
from kafka import TopicPartition as KafkaPartition

from checkback.consumer.clients.base import Connection, KafkaAwayError
from checkback.consumer.clients.group_client import Clients
from checkback.consumer.listener import TopicPartition
from checkback.consumer.offsets.metadata import Stored, decode
from checkback.consumer.retries.dead_letters import DeadLetter, lies_there, said_by
from checkback.consumer.retry import FIRST_ID, as_it_was
from checkback.kafka.topic_reading import reading_consumer, records_between, records_to_end
from checkback.wire.protocol import HELD, ID, Topics
from torture.effects.orders import GROUP, TOPIC, Order

_STABLE_SECONDS = 60.0


class Open(NamedTuple):
    """A message that is not done, and where it lies."""

    order: str
    where: str


class KafkaLook:
    """Asks a broker that is there. ``topics`` are Checkback's."""

    def __init__(self, bootstrap_servers: str, topics: Topics) -> None:
        self._bootstrap_servers = bootstrap_servers
        self._topics = topics
        self.retry, self.dead = topics.retry(GROUP), topics.dead(GROUP)

    def dead_letters(self) -> tuple[Counter[str], dict[str, str]]:
        """How often each order lies there, and why."""
        with closing(reading_consumer(self._bootstrap_servers)) as consumer:
            letters = [said_by(lies_there(record)) for record in records_to_end(consumer, self.dead)]
        found = [letter for letter in letters if isinstance(letter, DeadLetter)]
        return Counter(letter.first_id for letter in found), {letter.first_id: letter.reason for letter in found}

    def stored(self) -> dict[TopicPartition, Stored]:
        """What the group has stored."""
        with closing(reading_consumer(self._bootstrap_servers)) as consumer:
            return self._stored(self._places(consumer))

    def unfinished(self) -> list[Open]:
        """Messages that the group has yet to do: in its topic, in its retry topic, or on their way there."""
        with closing(reading_consumer(self._bootstrap_servers)) as consumer:
            places = self._places(consumer)
            stored = self._stored(places)
            found = [one for place in places for one in _open(consumer, place, stored.get(place, Stored(0)))]
            return [*found, *self._on_their_way(consumer)]

    def moved_twice(self) -> set[str]:
        """Orders of which one and the same retry lies in the half topic more than once."""
        with closing(reading_consumer(self._bootstrap_servers)) as consumer:
            all_headers = [dict(record.headers) for record in records_to_end(consumer, self._topics.half)]
        # what the job holds for a topic that does not take it it writes again, by itself
        retries = [one for one in all_headers if FIRST_ID in one and HELD not in one]
        count = Counter(one.get(ID) for one in retries)
        return {one[FIRST_ID].decode(errors="replace") for one in retries if count[one.get(ID)] > 1}

    def _places(self, consumer: KafkaConsumer) -> list[TopicPartition]:
        return [
            TopicPartition(topic, number)
            for topic in (TOPIC, self.retry)
            for number in sorted(consumer.partitions_for_topic(topic) or ())
        ]

    def _stored(self, places: list[TopicPartition]) -> dict[TopicPartition, Stored]:
        """Of a partition in a transaction whose producer has died nothing is known before that has been ended."""
        connection = Connection(self._bootstrap_servers, GROUP, "torture")
        deadline = monotonic() + _STABLE_SECONDS
        while True:
            try:
                return Clients().stored(connection, places)
            except KafkaAwayError:
                if monotonic() > deadline:
                    raise

    def _on_their_way(self, consumer: KafkaConsumer) -> Iterator[Open]:
        """Sent back, and not delivered again."""
        delivered = {dict(record.headers).get(ID) for record in records_to_end(consumer, self.retry)}
        for record in records_to_end(consumer, self._topics.later):
            headers = dict(record.headers)
            if headers.get(ID) not in delivered:
                order = (headers.get(FIRST_ID) or b"").decode(errors="replace")
                yield Open(order, f"{record.topic}-{record.partition} {record.offset}, not delivered to {self.retry}")


def _open(consumer: KafkaConsumer, place: TopicPartition, stored: Stored) -> Iterator[Open]:
    partition = KafkaPartition(*place)
    done = decode(stored).done
    end = consumer.end_offsets([partition])[partition]
    for record in records_between(consumer, partition, stored.offset, end):
        if not any(record.offset in one for one in done):
            message = as_it_was(lies_there(record))
            yield Open(
                Order.of(message.value).name or message.id,
                f"{place} {record.offset}, try {message.tries + 1}; {stored.offset} is stored",
            )
