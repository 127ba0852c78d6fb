"""Flask with the check endpoint mounted in it."""

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from pyspark.sql import SparkSession
from sqlalchemy import create_engine
from werkzeug.serving import make_server

from checkback import Message
from checkback.sql.transaction_log import SqlTransactionLog
from examples.flask_shop import create_app
from tests.end_to_end.job import running
from tests.place import Place, wait_until


@pytest.fixture
def database(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'shop.db'}"


@pytest.fixture
def listening() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as made:
        yield made


@pytest.fixture
def app(place: Place, database: str, listening: socket.socket) -> Iterator[Flask]:
    url = f"http://127.0.0.1:{listening.getsockname()[1]}"
    made = create_app(place.bootstrap_servers, url, database, place.topics)
    yield made
    for part in made.extensions["checkback"]:
        part.close()


def headers(record: Any) -> dict[str, bytes]:
    return dict(record.headers)


def test_flask_pays_orders(app: Flask, place: Place) -> None:
    client = app.test_client()
    assert [client.post(f"/orders/{number}/pay").status_code for number in (1, 2, 1)] == [201, 201, 409]
    _, producer = app.extensions["checkback"]
    producer.flush()
    assert {half.value for half in place.read(place.topics.half)} == {b'{"order": 1}', b'{"order": 2}'}
    actions = [headers(op)["cb-action"] for op in place.read(place.topics.op)]
    assert sorted(actions) == [b"commit", b"commit", b"rollback"]


@pytest.fixture
def served(app: Flask, listening: socket.socket) -> Iterator[None]:
    server = make_server("127.0.0.1", 0, app, threaded=True, fd=listening.fileno())
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield
    server.shutdown()
    thread.join()
    server.server_close()


def test_flask_answers_the_job(app: Flask, served: None, database: str, place: Place, spark: SparkSession) -> None:
    _, producer = app.extensions["checkback"]
    engine = create_engine(database)
    # no op of either: a process that died before it could say
    happened = producer.prepare(Message(place.real_topic, b"happened"))
    producer.prepare(Message(place.real_topic, b"did not happen"))
    with engine.begin() as connection:
        SqlTransactionLog(engine).record(connection, happened.transaction_id)
    with running(place, spark) as counts:
        wait_until(lambda: counts["committed"] == 1 and counts["rolled_back"] == 1)
    assert [record.value for record in place.read(place.real_topic)] == [b"happened"]


def test_flask_says_in_one_sentence_that_no_kafka_answers(tmp_path: Path) -> None:
    app = "examples.flask_shop:create_app('127.0.0.1:1')"
    command = [sys.executable, "-m", "flask", "--app", app, "run", "--port", "0"]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "Error: No Kafka answers at 127.0.0.1:1" in done.stderr
