"""The client in JavaScript: its own tests, which run docs/vectors, and its shop against the real job."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.end_to_end.job import running
from tests.place import Place, wait_until

ROOT = Path(__file__).parents[2]
VECTORS = ROOT / "docs" / "vectors"
TRANSACTIONS = 12


def _node_version() -> int:
    if shutil.which("node") is None or shutil.which("npm") is None:
        return 0
    said = subprocess.run(["node", "--version"], capture_output=True, text=True, check=True).stdout
    return int(said.removeprefix("v").split(".")[0])


pytestmark = pytest.mark.skipif(_node_version() < 20, reason="needs Node 20 or newer, with npm")


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("node") / "client"
    shutil.copytree(ROOT / "examples" / "clients" / "node", folder, ignore=shutil.ignore_patterns("node_modules"))
    installed = subprocess.run(
        ["npm", "ci", "--no-audit", "--no-fund"], cwd=folder, capture_output=True, text=True, timeout=180, check=False
    )
    assert installed.returncode == 0, installed.stderr
    return folder


def test_it_is_right_by_the_vectors(client: Path) -> None:
    environment = {**os.environ, "CHECKBACK_VECTORS": str(VECTORS)}
    done = subprocess.run(
        ["node", "--test"], cwd=client, env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout


@pytest.fixture
def shop(client: Path, place: Place) -> Iterator["subprocess.Popen[str]"]:
    command = ["node", "shop.js", place.bootstrap_servers, place.topics.prefix, place.real_topic, str(TRANSACTIONS)]
    process = subprocess.Popen(command, cwd=client, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    yield process
    process.kill()
    process.wait()


def test_its_messages_are_delivered_also_those_that_only_a_check_decides(
    place: Place, spark: SparkSession, shop: "subprocess.Popen[str]"
) -> None:
    assert shop.stdout is not None
    assert shop.stdin is not None
    sent = [json.loads(shop.stdout.readline()) for _ in range(TRANSACTIONS)]
    wanted = {one["id"]: one["i"] for one in sent if one["fate"] != "rollback"}
    with running(place, spark) as _:
        wait_until(lambda: len(place.read(place.real_topic)) >= len(wanted))
    found = place.read(place.real_topic)
    headers = [("trace-id", b"\x00\xff"), ("step", b"1"), ("step", b"2"), ("größe", "ü".encode()), ("empty", b"")]
    assert {dict(record.headers)["cb-id"].decode(): json.loads(record.value)["order"] for record in found} == wanted
    assert [record.headers[1:] for record in found] == [headers] * len(wanted)
    assert [record.key.decode() for record in found] == [
        f"order-{json.loads(record.value)['order']}" for record in found
    ]
    assert place.read(place.topics.rejected) == []
    shop.stdin.close()
    assert shop.wait(30) == 0
    assert place.read(place.topics.producers)[-1].value is None
