"""A consumer on a Kafka in memory."""

from checkback.consumer import (
    ConsumeResult,
    ConsumerSettings,
    Listener,
    PushConsumer,
    StartAt,
    TopicPartition,
)
from tests.consumer.kafka_fake import FakeKafka

ORDERS = TopicPartition("orders", 0)


LATER, SUCCESS = ConsumeResult.LATER, ConsumeResult.SUCCESS


QUICK = ConsumerSettings(
    concurrency=4, start_at=StartAt.FIRST, store_interval=0.05, retry_here=0.05, suspend=0.05, finish_wait=2.0
)


def changed(**settings: object) -> ConsumerSettings:
    return ConsumerSettings(**{**vars(QUICK), **settings})


def consumer(kafka: FakeKafka, listener: Listener, settings: ConsumerSettings = QUICK) -> PushConsumer:
    return PushConsumer("fake:9092", "points", listener, "orders", settings=settings, clients=kafka)


def numbered(count: int) -> list[bytes]:
    return [b"%03d" % number for number in range(count)]
