"""Several processes at the same ports, and what becomes of them."""

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import grpc
import psutil

from checkback.local.kafka import free_port
from gateway.rocketmq.v2 import definition_pb2 as v2
from tests.gateway.rocketmq.calling import Caller
from tests.gateway.scene import SECRET
from tests.gateway.test_process import of_topic
from tests.place import Place, wait_until

COMMAND = [sys.executable, "-m", "checkback", "gateway", "--processes", "2"]


def settings_of(place: Place, port: int) -> dict[str, str]:
    return {
        "CHECKBACK_KAFKA__BOOTSTRAP_SERVERS": place.bootstrap_servers,
        "CHECKBACK_KAFKA__TOPIC_PREFIX": place.topics.prefix,
        "CHECKBACK_GATEWAY__PORT": str(port),
        "CHECKBACK_GATEWAY__HTTP_PORT": "0",
        "CHECKBACK_GATEWAY__SECRETS": json.dumps([SECRET]),
    }


def test_what_no_process_can_have_ends_all_of_them(place: Place) -> None:
    """They are not started again for ever."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        environment = {**os.environ, **settings_of(place, port)}
        ended = subprocess.run(COMMAND, check=False, env=environment, capture_output=True, text=True)
    assert ended.returncode != 0
    assert str(port) in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_gateway_whose_watching_process_is_killed_ends(place: Place) -> None:
    port = free_port()
    watching = subprocess.Popen(COMMAND, env={**os.environ, **settings_of(place, port)}, stdout=subprocess.DEVNULL)
    try:

        async def send() -> None:
            async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel, asyncio.timeout(60):
                await channel.channel_ready()
                assert (await Caller(channel).send(of_topic(place))).status.code == v2.OK

        asyncio.run(send())
        serving = [one for one in psutil.Process(watching.pid).children() if "spawn_main" in " ".join(one.cmdline())]
        assert len(serving) == 2
    finally:
        watching.send_signal(signal.SIGKILL)
        watching.wait()
    wait_until(lambda: not any(one.is_running() for one in serving))


def test_one_that_cannot_come_back_yet_does_not_end_the_others(place: Place, tmp_path: Path) -> None:
    """Somebody has taken its port meanwhile; or Kafka was away when it was started again."""
    port, check_port, log = free_port(), two_free_ports(), tmp_path / "log"
    environment = {**os.environ, **settings_of(place, port), "CHECKBACK_GATEWAY__CHECK_PORT": str(check_port)}
    with log.open("wb") as written:
        watching = subprocess.Popen(COMMAND, env=environment, stdout=written, stderr=subprocess.STDOUT)
    try:
        wait_until(lambda: log.read_text().count("Ctrl-C stops it") == 2, "both")
        children = [one for one in psutil.Process(watching.pid).children() if "spawn_main" in " ".join(one.cmdline())]
        children[0].kill()
        with taken(check_port):
            wait_until(lambda: log.read_text().count("is started again") >= 2, "a try in vain")
            assert watching.poll() is None
        wait_until(lambda: log.read_text().count("Ctrl-C stops it") == 3, "it is back")
    finally:
        watching.terminate()
        watching.wait()


def two_free_ports() -> int:
    """The first of two that follow one another."""
    while True:
        port = free_port()
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port + 1)):
            return port


@contextlib.contextmanager
def taken(first: int) -> Iterator[None]:
    """Of two ports that which nobody listens at, while the other one is served."""
    made: list[socket.socket] = []

    def take() -> bool:
        for port in (first, first + 1):
            with contextlib.suppress(OSError):
                made.append(socket.create_server(("127.0.0.1", port)))
                return True
        return False

    wait_until(take, "the killed one's port")
    with made[0]:
        yield
