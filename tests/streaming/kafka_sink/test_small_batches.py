"""Topics that take a few small messages at a time: how long they may hold up a batch."""

from streaming.batch.record import Record, batch_bytes
from streaming.kafka_sink.small_batches import SizeLimitedTopics

WAVE_SECONDS = 0.1


class Kafka:
    """A fake one in which each flush takes a tenth of a second."""

    def __init__(self, limit: int, seconds: float = 1.0) -> None:
        self.now = 0.0
        self.sent: list[Record] = []
        self.narrow = SizeLimitedTopics({"t": limit, "u": limit}, lambda _: 1, seconds, lambda: self.now)

    def give(self, record: Record) -> None:
        assert self.narrow.hold(record)
        if self.narrow.full:
            self.write()

    def write(self) -> None:
        self.narrow.write(self.sent.append, self.flush)

    def flush(self) -> None:
        self.now += WAVE_SECONDS


def message(number: int, topic: str = "t") -> Record:
    return Record(topic, 0, None, b"%04d" % number, [])


def test_a_topic_that_takes_one_message_at_a_time_is_slow_after_its_seconds() -> None:
    kafka = Kafka(batch_bytes(message(0)) + 4)
    number = 0
    while not kafka.narrow.pace_ms("t"):
        kafka.give(message(number))
        number += 1
    # as soon as it is known: not only when 8 MiB have been gathered
    assert number == 32
    assert (len(kafka.sent), round(kafka.narrow.pace_ms("t"))) == (32, 100)
    assert kafka.narrow.pace_ms("u") == 0
    kafka.give(message(1, "u"))
    kafka.write()
    assert kafka.narrow.pace_ms("u") == 0


def test_messages_that_fit_into_few_batches_take_few_waves() -> None:
    kafka = Kafka(10_000)
    for number in range(3_000):
        kafka.give(message(number))
    kafka.write()
    assert [record.value for record in kafka.sent] == [b"%04d" % number for number in range(3_000)]
    assert kafka.now < 10 * WAVE_SECONDS
    assert kafka.narrow.pace_ms("t") == 0
