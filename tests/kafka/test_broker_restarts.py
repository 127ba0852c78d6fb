"""What librdkafka is asked of a group while its broker restarts: no answer may end the process that asks."""

import subprocess
import sys
from collections import deque
from queue import Queue
from threading import Thread

from checkback.local import LocalKafka

ASKING = """
import sys
from threading import Thread

from confluent_kafka import KafkaException, TopicPartition

from checkback.kafka.librdkafka.groups import members_of
from checkback.kafka.librdkafka.groups import committed_by
from checkback.kafka.librdkafka.library import Consumer

reaching = {"bootstrap.servers": sys.argv[1], "log_level": 2}


def again_and_again(name, ask):
    while True:
        try:
            ask()
            print(name, "answered", flush=True)
        except KafkaException:
            print(name, "away", flush=True)


asked = {
    "offsets": lambda: committed_by("orders", [TopicPartition("cb.progress", 0)], reaching),
    "members": lambda: members_of("orders", reaching, 0.5),
}
running = [Thread(target=again_and_again, args=one) for one in asked.items()]
for thread in running:
    thread.start()
"""


def test_whoever_asks_a_group_outlives_a_restart_of_the_broker() -> None:
    with LocalKafka() as kafka:
        command = [sys.executable, "-c", ASKING, kafka.bootstrap_servers]
        asking = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        lines: Queue[bytes] = Queue()
        assert asking.stdout is not None
        hearing = Thread(target=deque, args=(map(lines.put, asking.stdout), 0))
        hearing.start()

        def wait_for(*expected: str) -> None:
            missing = set(expected)
            while missing:
                missing.discard(lines.get(timeout=60).decode().strip())

        try:
            wait_for("offsets answered", "members answered")
            kafka.kill()
            wait_for("offsets away", "members away")
            kafka.start()
            wait_for("offsets answered", "members answered")
            wait_for("offsets answered", "members answered")
            assert asking.poll() is None
        finally:
            asking.kill()
            _, said = asking.communicate()
            hearing.join(60)
        assert b"Assertion" not in said
