"""Django: the example, the page's project as its reader makes it, and a server that is killed while it pays."""

import os
import re
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import httpx
import pytest
from pyspark.sql import SparkSession

from checkback.local.supervisor import die_with_starter
from checkback.operations.topics import TopicAdministration
from tests.end_to_end.job import running
from tests.place import Place, wait_until

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "django.md").read_text(encoding="utf-8")
SETTINGS, URLS, MODELS, VIEWS, WSGI, _, CONSUMERS, TESTS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


def run(folder: Path, *command: str, **variables: str) -> str:
    done = subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), **variables},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_the_examples_own_tests_pass(tmp_path: Path) -> None:
    assert "Ran 3 tests" in run(tmp_path, "-m", "examples.django_shop", "test", "examples.django_shop")


def test_the_page_makes_a_project(tmp_path: Path) -> None:
    run(tmp_path, "-m", "django", "startproject", "mysite")
    project = tmp_path / "mysite"
    run(project, "manage.py", "startapp", "shop")
    for name, text in (("mysite/settings", SETTINGS), ("mysite/urls", URLS), ("mysite/wsgi", WSGI)):
        with (project / f"{name}.py").open("a") as file:
            file.write(f"\n{text}")
    for name, text in (("models", MODELS), ("views", VIEWS), ("consumers", CONSUMERS), ("tests", TESTS)):
        (project / "shop" / f"{name}.py").write_text(text)
    run(project, "manage.py", "makemigrations", "shop")
    run(project, "manage.py", "migrate")
    assert "no issues" in run(project, "manage.py", "check", "--database", "default")
    assert "Ran 2 tests" in run(project, "manage.py", "test")


class Server:
    """The example under Django's own server."""

    def __init__(self, place: Place) -> None:
        with socket.create_server(("127.0.0.1", 0)) as probe:
            self.port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.database = place.folder / "shop.db"
        self._log = place.folder / "server.log"
        self._environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "DJANGO_SETTINGS_MODULE": "tests.examples.django_shop_killed",
            "SHOP_DATABASE": str(self.database),
            "SHOP_KAFKA": place.bootstrap_servers,
            "SHOP_URL": self.url,
            "SHOP_TOPIC_PREFIX": place.topics.prefix,
        }
        with TopicAdministration(place.bootstrap_servers) as administration:
            administration.create_one("points", 1)  # what the example sends to; no other test does
        run(place.folder, "-m", "examples.django_shop", "migrate", **self._environment)

    def start(self, dies: str = "") -> None:
        self.process = self.command("runserver", str(self.port), "--noreload", dies=dies)
        wait_until(self._answers, "the server")

    def command(self, *arguments: str, dies: str = "") -> "subprocess.Popen[bytes]":
        with self._log.open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "examples.django_shop", *arguments],
                cwd=ROOT,
                env={**self._environment, "SHOP_DIES": dies},
                stdout=log,
                stderr=log,
                preexec_fn=die_with_starter,  # noqa: PLW1509  (the one call it makes takes no lock)
            )

    def received(self) -> list[str]:
        """The ids in the inbox."""
        with closing(sqlite3.connect(self.database)) as looking:
            return [row[0] for row in looking.execute("SELECT message_id FROM checkback_inbox ORDER BY 1")]

    def pay(self, number: int) -> int:
        """The status; 0: it died."""
        try:
            return httpx.post(f"{self.url}/orders/{number}/pay", timeout=120).status_code
        except httpx.TransportError:
            return 0

    def _answers(self) -> bool:
        assert self.process.poll() is None, self._log.read_text()
        try:
            return httpx.get(self.url, timeout=120).status_code == 404
        except httpx.TransportError:
            return False


@pytest.fixture
def server(place: Place) -> Iterator[Server]:
    made = Server(place)
    made.start()
    yield made
    made.process.kill()
    made.process.wait()


def test_orders_are_delivered_also_when_the_server_is_killed(server: Server, place: Place, spark: SparkSession) -> None:
    assert [server.pay(1), server.pay(1)] == [201, 409]
    for number, moment in ((2, "before the commit"), (3, "after the commit")):
        server.process.kill()
        server.process.wait()
        server.start(dies=moment)
        assert server.pay(number) == 0
        server.process.wait()
    server.start()  # announces itself: nobody sends a message any more
    with running(place, spark) as counts:
        wait_until(lambda: counts["committed"] == 2 and counts["rolled_back"] == 2)
    assert sorted(record.value for record in place.read("points")) == [b'{"order": 1}', b'{"order": 3}']
    assert [server.pay(number) for number in (2, 3)] == [201, 409]


def test_a_consumer_has_the_effect_once_and_ends_in_order(server: Server, place: Place) -> None:
    assert server.pay(7) == 201
    with closing(place.producer()) as sends:
        for _ in "12":  # the second is a producer's mistake
            sends.send(place.real_topic, b'{"order": 7}', headers=[("cb-id", b"tx-7")])
        sends.send(place.real_topic, b'{"order": 8}', headers=[("cb-id", b"tx-8")])  # not paid: tried again later
    group = place.topics.prefix.rstrip(".")
    consumes = server.command(
        *("checkback_consume", "examples.django_shop.consumers:confirm"),
        *("--group", group, "--topic", place.real_topic, "--start-at", "first"),
    )
    try:
        wait_until(lambda: bool(server.received()) or consumes.poll() is not None)
        wait_until(lambda: len(place.read(place.topics.later)) == 1, "the one that failed")
    finally:
        consumes.terminate()
    assert consumes.wait(60) == 0
    assert server.received() == ["tx-7"]
