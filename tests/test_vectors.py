"""The vectors of docs/vectors, for clients in other languages: job, check service and our endpoint keep to them."""

import asyncio
import json
import re
from base64 import b64decode
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import aiohttp
import httpx
import pytest
from confluent_kafka import Producer
from kafka import KafkaAdminClient
from pyspark.sql import SparkSession

from checkback import CallableListener, CheckRequest, LocalTransactionState, check_app
from checkback.operations.topics import TopicAdministration
from checkback.wire.protocol import SIGNATURE, HalfPosition
from checkback.wire.signature import SIGNATURE_HEADER, answer_fits, answer_signature, signature
from checkback.wire.signed_records import SigningKey, place_of, signature_header
from checkers.ask import Asker
from checkers.directory import Endpoint, EndpointDirectory
from checkers.http.admission import AllowList
from streaming import TransactionJob
from streaming.batch.record import RANDOM_OR_KEYED, Record
from streaming.kafka_sink.topic_limits import chosen_partition
from tests.checkers.serving import http, serving
from tests.place import Place, wait_until

VECTORS = Path(__file__).parents[1] / "docs" / "vectors"


def cases(file: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((VECTORS / file).read_text(encoding="utf-8"))["cases"]
    return found


def content(said: Any) -> bytes | None:
    if said is None:
        return None
    return b64decode(said["base64"]) if isinstance(said, dict) else str(said).encode()


def headers(said: list[Any], half: str = "") -> list[tuple[str, Any]]:
    return [(name, content(value.replace("{half}", half) if isinstance(value, str) else value)) for name, value in said]


REAL: dict[str, int] = json.loads((VECTORS / "records.json").read_text(encoding="utf-8"))["topics"]


@pytest.fixture
def real_topics(place: Place) -> Iterator[None]:
    with TopicAdministration(place.bootstrap_servers) as administration:
        for name, partitions in REAL.items():
            administration.create_one(name, partitions)
        assert administration.wait_for(list(REAL)) == []
    yield
    with closing(KafkaAdminClient(bootstrap_servers=place.bootstrap_servers)) as admin:
        admin.delete_topics(list(REAL))


def write(place: Place, said: list[dict[str, Any]]) -> None:
    """Write all records, with a client that can write a header without a value."""
    producer = Producer({"bootstrap.servers": place.bootstrap_servers})

    def put(topic: str, partition: int, record: dict[str, Any], half: str = "") -> int:
        offsets: list[int] = []
        producer.produce(
            topic,
            content(record["value"]),
            content(record.get("key")),
            partition,
            lambda error, message: offsets.append(-1 if error else message.offset() or 0),
            headers=headers(record["headers"], half),
        )
        producer.flush(120)
        assert offsets[0] >= 0
        return offsets[0]

    for number, case in enumerate(said):
        partition = number % 2
        half = str(HalfPosition(partition, put(place.topics.half, partition, case["half"])))
        for op in case["ops"]:
            put(place.topics.op, 1 - partition if op.get("other_partition") else partition, op, half)


def delivered(record: Any) -> tuple[Any, ...]:
    return (record.topic, record.key, record.value, list(record.headers))


def expected(one: dict[str, Any]) -> tuple[Any, ...]:
    return (one["topic"], content(one["key"]), content(one["value"]), headers(one["headers"]))


def test_the_job_does_with_records_what_must_happen(place: Place, spark: SparkSession, real_topics: None) -> None:
    said = cases("records.json")
    write(place, said)
    must = [case["must"] for case in said]
    wanted = [expected(one) for one_case in must for one in one_case["delivered"]]
    to_check = {name for case in said if case["must"]["checked"] for name in [dict(case["half"]["headers"])["cb-id"]]}

    def checked() -> set[str]:
        return {record.key.decode() for record in place.read(place.topics.check)}

    with TransactionJob(place.settings(checks={"in_job": False}), spark=spark) as job:
        found: list[Any] = []

        def done() -> bool:
            job.wait(1)
            found[:] = [record for topic in REAL for record in place.read(topic)]
            return len(found) >= len(wanted) and checked() >= to_check

        wait_until(done, "deliveries and checks")
    assert checked() == to_check
    assert sorted(map(repr, map(delivered, found))) == sorted(map(repr, wanted))
    of_id = {dict(record.headers)["cb-id"]: record.partition for record in found}
    for one in (one for one_case in must for one in one_case["delivered"]):
        if one["partition"] is not None:
            assert of_id[content(dict(one["headers"])["cb-id"])] == one["partition"], one
    rejected = [dict(record.headers) for record in place.read(place.topics.rejected)]
    reasons = sorted((one["cb-from"].decode().split(":")[0], one["cb-reason"].decode()) for one in rejected)
    topic = {"half": place.topics.half, "op": place.topics.op}
    assert reasons == sorted((topic[one["record"]], one["reason"]) for one_case in must for one in one_case["rejected"])


@pytest.mark.parametrize("case", cases("requests.json"), ids=lambda case: case["name"])
def test_our_endpoint_answers_as_it_must(case: dict[str, Any]) -> None:
    def check(request: CheckRequest) -> LocalTransactionState:
        return LocalTransactionState(case["knows"].get(request.transaction_id, "rollback"))

    listener = CallableListener(lambda _message, _arg: LocalTransactionState.UNKNOWN, check)
    now_ms = case.get("now_ms", 0)
    app = check_app(listener, case["group"], key=case.get("key"), clock_ms=lambda: now_ms)

    async def asked() -> httpx.Response:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://app") as client:
            headers = {"content-type": "application/json", **case["headers"]}
            return await client.post("/", content=case["body"].encode(), headers=headers)

    answer = asyncio.run(asked())
    must = case["must"]
    if "status_not" in must:
        assert answer.status_code != must["status_not"]
        return
    assert answer.status_code == must["status"], answer.text
    signed = answer.headers.get(SIGNATURE_HEADER)
    assert (signed is not None) == ("key" in case and answer.status_code == 200)
    if signed is not None:
        asked_with = next(value for name, value in case["headers"].items() if name.lower() == SIGNATURE_HEADER)
        assert answer_fits(case["key"].encode(), asked_with, answer.content, signed)
    if "answer" in must:
        assert must["answer"].items() <= answer.json().items()
    if "answers" in must:
        assert {one["id"]: one["state"] for one in answer.json()["answers"]} == must["answers"]


QUESTION = CheckRequest("tx-17", "orders", "shop.orders", None, b"1", [], HalfPosition(3, 81923), 1, 15, 1767225600000)


@pytest.mark.parametrize("case", cases("answers.json"), ids=lambda case: case["name"])
def test_the_check_service_takes_answers_as_it_must(case: dict[str, Any]) -> None:
    async def asked(url: str) -> Any:
        async with aiohttp.ClientSession() as session:
            return await Asker(session, AllowList([])).ask(Endpoint(url), [QUESTION])

    with serving(http(case["body"].encode(), f"{case['status']} Whatever")) as served:
        [verdict] = asyncio.run(asked(served.url)).verdicts
    assert verdict.action == case["taken_as"]
    assert "remark" not in case or verdict.remark == case["remark"]


@pytest.mark.parametrize("case", cases("signatures.json"), ids=lambda case: case["signature"][:8])
def test_signatures(case: dict[str, Any]) -> None:
    assert signature(case["key"].encode(), case["time_ms"], case["body"].encode()) == case["signature"]


@pytest.mark.parametrize("case", cases("partitions.json"), ids=lambda case: f"{case['key']!r:.20}-{case['partitions']}")
def test_partitions(case: dict[str, Any]) -> None:
    record = Record("orders", RANDOM_OR_KEYED, content(case["key"]), b"", [])
    assert chosen_partition(record, case["partitions"]) == case["partition"]


@pytest.mark.parametrize("case", cases("announcements.json"), ids=lambda case: case["name"])
def test_announcements_are_taken_as_they_must(case: dict[str, Any]) -> None:
    directory = EndpointDirectory({}, ttl_ms=60_000)
    directory.hear(case["key"].encode(), b'{"group":"orders","instance":"1","url":"http://old/","time_ms":1}', 0)
    directory.hear(case["key"].encode(), content(case["value"]), 0)
    found = list(directory.endpoints("orders", "shop.orders", 0))
    taken = case["taken"]
    assert [(one.url, one.batch) for one in found] == ([(taken["url"], taken["batch"])] if taken else [])
    of_other_topics = [one.url for one in directory.endpoints("orders", "another", 0)]
    assert of_other_topics == ([taken["url"]] if taken and taken["topics"] is None else [])


def test_the_page_names_each_file_and_each_reason_is_on_the_protocols_page() -> None:
    page = (VECTORS / "README.md").read_text(encoding="utf-8")
    assert {file.name for file in VECTORS.glob("*.json")} == set(re.findall(r"`([\w-]+\.json)` \|", page))
    rules = (VECTORS.parent / "protocol.md").read_text(encoding="utf-8")
    for case in cases("records.json"):
        for one in case["must"]["rejected"]:
            known = one["reason"] in rules or one["reason"].startswith(("Not a value of several", "cb-messages says"))
            assert known, one["reason"]


@pytest.mark.parametrize("case", cases("answer-signatures.json"), ids=lambda case: case["signature"][:8])
def test_signatures_of_answers(case: dict[str, Any]) -> None:
    assert answer_signature(case["key"].encode(), case["request"], case["body"].encode()) == case["signature"]


@pytest.mark.parametrize("case", cases("signed-records.json"), ids=lambda case: case["name"])
def test_signatures_of_records(case: dict[str, Any]) -> None:
    record, key = case["record"], SigningKey(case["key_id"], case["secret"])
    headers = [(name, content(value)) for name, value in record["headers"]]
    place, parts = place_of(case["topic"], case["partition"]), (content(record["key"]), content(record["value"]))
    assert signature_header(key, place, case["time_ms"], parts, headers) == (SIGNATURE, case["signature"].encode())
