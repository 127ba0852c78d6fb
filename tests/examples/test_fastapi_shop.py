"""FastAPI with AsyncSession and PostgreSQL: a server that is killed while it pays."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from pyspark.sql import SparkSession
from sqlalchemy import URL, create_engine, text

from checkback.local.supervisor import die_with_starter
from checkback.operations.topics import TopicAdministration
from tests.end_to_end.job import running
from tests.place import Place, wait_until
from tests.sql.postgres import running_postgres

ROOT = Path(__file__).parents[2]


class Server:
    """The example under uvicorn."""

    def __init__(self, place: Place, database: URL) -> None:
        with socket.create_server(("127.0.0.1", 0)) as probe:
            self._port = probe.getsockname()[1]
        self._url = f"http://127.0.0.1:{self._port}"
        self._log = place.folder / "server.log"
        self._environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "SHOP_DATABASE": database.render_as_string(hide_password=False),
            "SHOP_KAFKA": place.bootstrap_servers,
            "SHOP_URL": self._url,
            "SHOP_TOPIC_PREFIX": place.topics.prefix,
        }

    def start(self, dies: str = "") -> None:
        command = ["uvicorn", "tests.examples.fastapi_shop_killed:app", "--port", str(self._port), "--no-access-log"]
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", *command],
                cwd=ROOT,
                env={**self._environment, "SHOP_DIES": dies},
                stdout=log,
                stderr=log,
                preexec_fn=die_with_starter,  # noqa: PLW1509  (the one call it makes takes no lock)
            )
        wait_until(self._answers, "the server")

    def end(self) -> None:
        self.process.kill()
        self.process.wait()

    def pay(self, number: int) -> int:
        """The status; 0: it died."""
        try:
            return httpx.post(f"{self._url}/orders/{number}/pay", timeout=120).status_code
        except httpx.TransportError:
            return 0

    def _answers(self) -> bool:
        assert self.process.poll() is None, self._log.read_text(encoding="utf-8")
        try:
            return httpx.get(self._url, timeout=120).status_code == 404
        except httpx.TransportError:
            return False


@pytest.fixture(scope="module")
def postgres() -> Iterator[URL]:
    with running_postgres() as url:
        yield url


@pytest.fixture
def server(place: Place, postgres: URL) -> Iterator[Server]:
    name = place.topics.prefix.rstrip(".")
    engine = create_engine(postgres, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {name}"))
    engine.dispose()
    with TopicAdministration(place.bootstrap_servers) as administration:
        administration.create_one("points", 1)
    made = Server(place, postgres.set(drivername="postgresql+psycopg", database=name))
    made.start()
    yield made
    made.end()


def test_orders_are_delivered_also_when_the_server_is_killed(server: Server, place: Place, spark: SparkSession) -> None:
    before = len(place.read("points"))
    assert [server.pay(1), server.pay(1)] == [200, 409]
    for number, moment in ((2, "before the commit"), (3, "after the commit")):
        server.end()
        server.start(dies=moment)
        assert server.pay(number) == 0
        server.process.wait()
    server.start()  # announces itself: nobody sends a message any more
    with running(place, spark) as counts:
        wait_until(lambda: counts["committed"] == 2 and counts["rolled_back"] == 2)
    delivered = [record.value for record in place.read("points")[before:]]
    assert sorted(delivered) == [b'{"order": 1}', b'{"order": 3}']
    assert [server.pay(number) for number in (2, 3)] == [200, 409]
