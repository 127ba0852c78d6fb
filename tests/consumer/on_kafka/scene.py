"""What tests on a real Kafka share: messages, and a member in a process of its own."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from checkback.consumer import (
    ConsumeResult,
)
from tests.place import Place as Topics

LATER, SUCCESS = ConsumeResult.LATER, ConsumeResult.SUCCESS


def numbered(first: int, count: int) -> list[bytes]:
    return [b"%05d" % number for number in range(first, first + count)]


@contextmanager
def started(place: Topics) -> Iterator["subprocess.Popen[bytes]"]:
    arguments = (place.bootstrap_servers, place.topics.prefix, place.real_topic)
    command = [sys.executable, "-m", "tests.consumer.killed", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        try:
            yield process
        finally:
            process.kill()
