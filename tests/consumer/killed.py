"""A consumer to be killed: writes each message's value to its standard output when it begins, and when it is done.

Arguments: bootstrap servers, topic prefix, topic. It hangs in messages that begin with ``hang``, and dies of
those that begin with ``die``.
"""

import os
import sys
import threading

from checkback.consumer import ConsumeResult, ConsumerSettings, PushConsumer, ReceivedMessage, StartAt
from checkback.wire.protocol import Topics
from tests.consumer.group import group_of, options


def listener(message: ReceivedMessage) -> ConsumeResult:
    value = message.value or b""
    say(b"begin " + value)
    if value.startswith(b"hang"):
        threading.Event().wait()
    if value.startswith(b"die"):
        os._exit(1)
    say(b"done " + value)
    return ConsumeResult.SUCCESS


def say(line: bytes) -> None:
    os.write(1, line + b"\n")  # whole, whichever thread it is


def main() -> None:
    servers, prefix, topic = sys.argv[1:]
    consumer = PushConsumer(
        *(servers, group_of(Topics(prefix)), listener, topic),
        settings=ConsumerSettings(
            start_at=StartAt.FIRST, concurrency=4, store_interval=0.2, max_deaths=1, hear_resets=False
        ),
        topics=Topics(prefix),
        # a member that is known by its name: another process of that name takes its place at once
        kafka_options=options(group_instance_id="one"),
    )
    with consumer:
        consumer.wait()


if __name__ == "__main__":
    main()
