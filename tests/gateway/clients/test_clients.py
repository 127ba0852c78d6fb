"""RocketMQ's own clients, unmodified: what they send is in Kafka, and they answer what they are asked."""

import os
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from checkback.wire.checks import CheckRequest
from checkback.wire.protocol import RESERVED_PREFIX, HalfPosition
from tests.gateway.clients.conftest import CREDENTIALS, Clients
from tests.gateway.clients.driven import ClientError, Driven
from tests.gateway.clients.gateways import RunningGateway
from tests.gateway.clients.installed import Client
from tests.place import Place


def text_of(record: Any) -> str:
    return str((record.value or b"").rstrip(b"\0").decode())


def the_half(place: Place, text: str) -> Any:
    (found,) = (record for record in place.read(place.topics.half) if text_of(record) == text)
    return found


def op_of(place: Place, half: Any) -> str:
    position = f"{half.partition}:{half.offset}".encode()
    ops = [dict(record.headers) for record in place.read(place.topics.op)]
    (action,) = (said["cb-action"].decode() for said in ops if said["cb-half"] == position)
    return str(action)


def ask(gateway: RunningGateway, place: Place, half: Any, wanted: str) -> str:
    """Ask as a check service does; gives the state that is answered."""
    said = dict(half.headers)
    headers = [(name, value) for name, value in half.headers if not name.startswith(RESERVED_PREFIX)]
    position = HalfPosition(half.partition, half.offset)
    check = CheckRequest(
        said["cb-id"].decode(), said["cb-group"].decode(), place.real_topic, half.key, half.value, headers, position,
        1, 15, half.timestamp,
    )  # fmt: skip
    url = f"http://127.0.0.1:{gateway.check_port}/checks/{check.group}"
    for _ in range(5):  # a client of a machine that is very busy needs longer than a check has
        answer = httpx.post(url, json=check.to_json(), timeout=20)
        assert answer.status_code == 200, answer.text
        if wanted == "unknown" or "said nothing within" not in answer.json()["remark"]:
            break
    return str(answer.json()["state"])


def example(client: Client, clients: Clients, place: Place, mode: str) -> "subprocess.CompletedProcess[str]":
    """The program that users copy."""
    environment = {**os.environ, **client.environment(place.folder), **CREDENTIALS}
    command = [*client.example, clients.address, place.real_topic, mode]
    return subprocess.run(
        command, cwd=client.folder, env=environment, capture_output=True, text=True, timeout=60, check=False
    )


def test_what_has_no_transaction_is_in_its_topic(driven: Driven, whole: Place) -> None:
    name = driven.client.name
    message_id = driven.send("normal", f"{name}-normal")
    for number in range(3):
        driven.send("fifo", f"{name}-fifo{number}")
    found = [record for record in whole.read(whole.real_topic) if text_of(record).startswith(name)]
    (normal,) = (record for record in found if text_of(record) == f"{name}-normal")
    said = {header: value.decode() for header, value in normal.headers}
    assert normal.key == b"k1"
    assert (said["tags"], said["keys"], said["customer"], said["rmq-message-id"]) == ("paid", "k1", "7", message_id)
    ordered = [record for record in found if "fifo" in text_of(record)]
    assert [(text_of(record), record.key) for record in ordered] == [(f"{name}-fifo{n}", b"g1") for n in range(3)]
    assert len({record.partition for record in ordered}) == 1


@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_a_transaction_is_a_half_message_and_an_op(driven: Driven, whole: Place, end: str) -> None:
    text = f"{driven.client.name}-{end}"
    driven.send("half", text)
    driven.do(end)
    half = the_half(whole, text)
    assert op_of(whole, half) == end
    assert {"cb-topic": whole.real_topic, "tags": "paid"}.items() <= {
        name: value.decode() for name, value in half.headers
    }.items()


@pytest.mark.parametrize("answer", ["unknown", "rollback", "commit"])
def test_it_answers_checks(driven: Driven, gateway: RunningGateway, whole: Place, answer: str) -> None:
    text = f"{driven.client.name}-asked-{answer}"
    driven.send("half", text)
    driven.do(f"answer {answer}")
    assert ask(gateway, whole, the_half(whole, text), answer) == answer
    driven.wait_asked(text, 5)
    assert set(driven.asked(text)) == {f"{text} {len(text)} paid k1 7"}


def test_a_topic_that_is_not_there_is_refused_at_once(driven: Driven, whole: Place) -> None:
    driven.do("topic no-such-topic")
    began = time.monotonic()
    with pytest.raises(ClientError, match=r"40300|route"):  # Python's says no more than that it has no route
        driven.send("half", "nowhere")
    assert time.monotonic() - began < 5
    driven.do(f"topic {whole.real_topic}")


def test_another_secret_is_refused(clients: Clients) -> None:
    wrong = clients.driven(ACCESS_SECRET="x" * 40)
    # Java's does not start; Python's does, and has no route
    with pytest.raises(ClientError, match=r"40100|route"), wrong:
        wrong.send("normal", "refused")


def test_the_example_commits_and_another_process_answers_for_one_that_has_crashed(
    client: Client, clients: Clients, driven: Driven, gateway: RunningGateway, whole: Place
) -> None:
    with ThreadPoolExecutor() as pool:
        committed, crashed = pool.map(lambda mode: example(client, clients, whole, mode), ["commit", "crash"])
    assert committed.returncode == 0, committed.stdout + committed.stderr
    assert crashed.returncode == 1, crashed.stdout + crashed.stderr
    text = f"order 1 from {client.name.capitalize()}"
    halves = {
        dict(record.headers)["rmq-message-id"].decode(): record
        for record in whole.read(whole.topics.half)
        if text_of(record) == text
    }
    one, other = (halves[done.stdout.split("half message ")[1].split()[0]] for done in (committed, crashed))
    assert op_of(whole, one) == "commit"
    driven.do("answer rollback")
    assert ask(gateway, whole, other, "rollback") == "rollback"
