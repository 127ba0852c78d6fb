"""The two scripts of docs/http.md are a whole producer: run as they are typed, beside a gateway on a real Kafka."""

import asyncio
import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from checkback.wire.checks import Announcement, CheckRequest
from checkback.wire.protocol import HalfPosition
from gateway.process import GatewayProcess
from gateway.refusals import RefusalReason
from tests.gateway.http.served import NOW_MS
from tests.gateway.http.test_process import FAR, settings_of
from tests.place import Place

PAGE = (Path(__file__).parents[3] / "docs" / "http.md").read_text(encoding="utf-8")
SCRIPTS = re.findall(r"^```sh\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
_THERE = shutil.which("curl") and shutil.which("jq")
needs_curl = pytest.mark.skipif(not _THERE, reason="the scripts need curl and jq")


def written(folder: Path) -> None:
    """The shop's folder, with its scripts."""
    for name, script in zip(("order.sh", "answer.sh"), SCRIPTS, strict=True):
        (folder / name).write_text(script, encoding="utf-8")
    for name in ("new", "taken"):
        (folder / name).mkdir()


async def ran(folder: Path, gateway: GatewayProcess, *command: str) -> subprocess.CompletedProcess[str]:
    """A script's run; of the second no poll waits for long."""
    url = f"http://127.0.0.1:{gateway.http_port}"
    environment = {**os.environ, "GATEWAY_URL": url, "WAIT": "0"}
    environment.pop("http_proxy", None)
    return await asyncio.to_thread(
        subprocess.run, ["sh", *command], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


@needs_curl
def test_an_order_is_taken_and_said_so(place: Place, tmp_path: Path) -> None:
    written(tmp_path)
    script = (tmp_path / "order.sh").read_text(encoding="utf-8").replace('"orders"', f'"{place.real_topic}"')
    (tmp_path / "order.sh").write_text(script, encoding="utf-8")
    (tmp_path / "new" / "17").write_text("a book", encoding="utf-8")

    async def run() -> None:
        async with asyncio.timeout(FAR), GatewayProcess(settings_of(place)) as gateway:
            done = await ran(tmp_path, gateway, "order.sh", "17")
            assert (done.returncode, done.stderr) == (0, "")
            absent = await ran(tmp_path, gateway, "order.sh", "18")
            assert absent.returncode != 0

    asyncio.run(run())
    (half,), (op,) = place.read(place.topics.half), place.read(place.topics.op)
    assert (half.key, half.value) == (b"17", b"a book")
    assert dict(half.headers)["cb-immunity-ms"] == b"120000"
    assert dict(op.headers)["cb-action"] == b"commit"
    assert (tmp_path / "taken" / "17").exists()


@needs_curl
@pytest.mark.parametrize(("taken", "state"), [("17", "commit"), ("18", "rollback")])
def test_a_check_is_answered_by_what_is_durable(place: Place, tmp_path: Path, taken: str, state: str) -> None:
    written(tmp_path)
    (tmp_path / "taken" / taken).touch()
    half = HalfPosition(0, 7)
    asked = CheckRequest("tx", "shop", place.real_topic, b"17", b"a book", [], half, 1, 15, NOW_MS)

    async def run() -> bytes | None:
        async with asyncio.timeout(FAR), GatewayProcess(settings_of(place)) as gateway:
            await ran(tmp_path, gateway, "answer.sh")  # from now on the group is announced
            (record,) = await asyncio.to_thread(announced, place)
            command = ["curl", "-sS", "--json", "@-", Announcement.from_record(record.value).url]
            service = await asyncio.create_subprocess_exec(
                *command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
            )
            asking = asyncio.ensure_future(service.communicate(json.dumps(asked.to_json()).encode()))
            while not asking.done():
                done = await ran(tmp_path, gateway, "answer.sh")
                assert (done.returncode, done.stderr) == (0, "")
            return (await asking)[0]

    assert f'"state":"{state}"'.encode() in (asyncio.run(run()) or b"")


def announced(place: Place) -> list[Any]:
    while not (found := place.read(place.topics.producers)):
        pass
    return found


def test_all_that_a_post_can_be_told_is_in_the_table() -> None:
    rows = [line for line in PAGE.splitlines() if re.match(r"\| [45]\d\d", line)]
    said = set(re.findall(r"`([a-z-]+)`", "".join(rows)))
    of_rocketmq = {
        *("TAG", "KEY", "MESSAGE_GROUP", "HEADER", "TOPIC", "DELIVERY_TIME", "TYPE", "HEADERS_TOO_LARGE", "NOT_THERE"),
    }
    mine = {one.name.lower().replace("_", "-") for one in RefusalReason if one.name not in of_rocketmq}
    assert mine <= said, mine - said
