"""A consumer whose listener forks at message 5, with a Kafka in memory; says who has handled what, and how each ended.

Argument: ``threads`` or ``loop``. It does so once for each way in which the child may end, whose name it writes first.
With threads the main thread forks as well in the end, within the consumer's block, and its child leaves it.
"""

import asyncio
import os
import sys
import threading

from checkback.consumer import (
    AsyncPushConsumer,
    ConsumeResult,
    ConsumerSettings,
    PushConsumer,
    ReceivedMessage,
    StartAt,
)
from checkback.exceptions import ConfigurationError
from tests.consumer.kafka_fake import FakeKafka

COUNT, FORKS = 40, 5
WAYS = {"exit": 3, "raise": 1, "return": 0}
"""What the child does, and its status then."""
SETTINGS = ConsumerSettings(start_at=StartAt.FIRST, concurrency=1)


class Shop:
    """A listener, and what the processes that run it say."""

    def __init__(self, way: str) -> None:
        self.way = way
        self.done = threading.Event()
        self.consumer: PushConsumer | AsyncPushConsumer | None = None

    def handle(self, message: ReceivedMessage) -> ConsumeResult:
        number = int(message.value or b"")
        parent = os.getpid()
        if number == FORKS:
            child = os.fork()
            if child == 0:
                self.be_the_child()
                return ConsumeResult.SUCCESS
            self.say(f"ended {os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])}")
        self.say(f"handled {number} {'parent' if os.getpid() == parent else 'child'}")
        if number == COUNT - 1:
            self.done.set()
        return ConsumeResult.SUCCESS

    async def handle_on_loop(self, message: ReceivedMessage) -> ConsumeResult:
        return self.handle(message)

    def be_the_child(self) -> None:
        try:
            self.consumer.figures()  # type: ignore[union-attr]  # it is there
        except ConfigurationError as error:
            self.say(f"refused {error}")
        if self.way == "exit":
            sys.exit(3)
        if self.way == "raise":
            raise ValueError("the child's")

    def say(self, line: str) -> None:
        os.write(1, f"{line}\n".encode())


def main(where: str) -> None:
    for way in WAYS:
        kafka, shop = FakeKafka(), Shop(way)
        kafka.write("orders", *[b"%d" % number for number in range(COUNT)])
        for stream in (1, 2):
            os.write(stream, f"way {way}\n".encode())
        if where == "loop":
            asyncio.run(on_loop(kafka, shop))
            continue
        consumer = PushConsumer("x:1", "points", shop.handle, "orders", settings=SETTINGS, clients=kafka)
        shop.consumer = consumer
        with consumer:
            shop.done.wait(30)
            child = os.fork()
            if child == 0:
                sys.exit(4)
            shop.say(f"ended {os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])}")


async def on_loop(kafka: FakeKafka, shop: Shop) -> None:
    consumer = AsyncPushConsumer("x:1", "points", shop.handle_on_loop, "orders", settings=SETTINGS, clients=kafka)
    shop.consumer = consumer
    async with consumer:
        await asyncio.to_thread(shop.done.wait, 30)


if __name__ == "__main__":
    main(sys.argv[1])
