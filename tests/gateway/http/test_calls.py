"""What each call over HTTP writes to Kafka, and what it says."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from checkback.wire.checks import MAX_ANNOUNCEMENT_BYTES, Announcement
from checkback.wire.message_json import unpack
from checkback.wire.protocol import Message
from gateway.refusals import GatewayError, RefusalReason
from tests.gateway.http.served import GROUP, MESSAGE, NOW_MS, TOKEN, TOPICS, Served, access_in, header

ENDPOINT = f"{GROUP}/endpoints/web-1"


async def begun(served: Served, **more: Any) -> str:
    answer = await served.client.post(f"{GROUP}/transactions", json={"message": MESSAGE}, **more)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["transaction"])


async def test_a_half_message_has_what_was_posted(served: Served) -> None:
    body = {
        "message": {**MESSAGE, "headers": {"trace": "x"}, "partition": 2},
        "check_immunity_ms": 60_000,
        "check_max": 3,
        "deliver_at_ms": NOW_MS,
    }
    answer = await served.client.post(f"{GROUP}/transactions", json=body)
    ticket = served.seal.open(answer.json()["transaction"])
    (half,) = served.written
    assert (half.topic, half.partition) == (TOPICS.half, ticket.half.partition)
    assert (half.key, half.value) == (b"17", b"a book")
    assert half.headers == [
        ("cb-id", ticket.transaction_id.encode()),
        ("cb-group", b"shop"),
        ("cb-topic", b"orders"),
        ("cb-partition", b"2"),
        ("cb-immunity-ms", b"60000"),
        ("cb-check-max", b"3"),
        ("cb-deliver-at", b"1764000000000"),
        ("trace", b"x"),
    ]
    assert ticket.group == "shop"


async def test_several_messages_are_one_half_message(served: Served) -> None:
    messages = [MESSAGE, {"topic": "orders", "value_base64": "/w=="}]
    answer = await served.client.post(f"{GROUP}/transactions", json={"messages": messages})
    assert answer.status_code == 201
    (half,) = served.written
    assert header(half, "cb-messages") == b"2"
    assert unpack(half.value) == (
        Message("orders", b"a book", b"17", []),
        Message("orders", b"\xff", None, []),
    )


@pytest.mark.parametrize("state", ["commit", "rollback", "unknown"])
async def test_an_end_is_an_op_of_its_half_message(served: Served, state: str) -> None:
    ticket = await begun(served)
    answer = await served.client.post(f"/v1/transactions/{ticket}/{state}", json={"remark": "r" * 600})
    assert (answer.status_code, answer.content) == (204, b"")
    half, op = served.written
    assert (op.topic, op.partition, op.value) == (TOPICS.op, half.partition, b"r" * 512)
    assert header(op, "cb-half") == f"{half.partition}:0".encode()
    assert header(op, "cb-id") == header(half, "cb-id")
    assert header(op, "cb-action") == state.encode()
    assert header(op, "cb-source") == b"producer"


async def test_an_end_needs_no_body(served: Served) -> None:
    ticket = await begun(served)
    assert (await served.client.post(f"/v1/transactions/{ticket}/commit")).status_code == 204
    assert served.written[1].value == b""


@pytest.mark.parametrize("word", ["Commit", "committed", "resume", "redeliver", "unreachable"])
async def test_there_are_three_ends(served: Served, word: str) -> None:
    ticket = await begun(served)
    answer = await served.client.post(f"/v1/transactions/{ticket}/{word}")
    assert answer.status_code == 404
    assert "commit, rollback, unknown" in answer.json()["detail"]
    assert len(served.written) == 1


async def test_a_message_without_a_transaction_goes_to_its_topic(served: Served) -> None:
    answer = await served.client.post(f"{GROUP}/messages", json={"message": MESSAGE})
    assert answer.status_code == 201
    (record,) = served.written
    assert (record.topic, record.partition, record.key, record.value) == ("orders", -1, b"17", b"a book")
    assert record.headers == [("cb-id", answer.json()["id"].encode())]


async def test_a_message_for_later_is_the_jobs(served: Served) -> None:
    answer = await served.client.post(f"{GROUP}/messages", json={"message": MESSAGE, "deliver_at_ms": NOW_MS})
    assert answer.status_code == 201
    (record,) = served.written
    assert record.topic == TOPICS.half
    assert header(record, "cb-id") == answer.json()["id"].encode()
    assert header(record, "cb-deliver-at") == str(NOW_MS).encode()
    assert header(record, "cb-action") == b"commit"


@pytest.mark.parametrize("call", ["transactions", "messages"])
async def test_what_is_posted_again_under_its_key_is_written_once(served: Served, call: str) -> None:
    once = {"idempotency-key": "order 17"}
    both = await asyncio.gather(
        *(served.client.post(f"{GROUP}/{call}", json={"message": MESSAGE}, headers=once) for _ in range(2))
    )
    again = await served.client.post(f"{GROUP}/{call}", json={"message": MESSAGE}, headers=once)
    assert [answer.status_code for answer in (*both, again)] == [201] * 3
    assert len({answer.text for answer in (*both, again)}) == 1
    assert len(served.written) == 1


async def test_one_id_belongs_to_one_key_in_whichever_process() -> None:
    processes = [Served(), Served()]
    for served in processes:
        await begun(served, headers={"idempotency-key": "order 17"})
    first, second = (header(served.written[0], "cb-id") for served in processes)
    assert first == second


async def test_without_a_key_each_post_is_a_transaction(served: Served) -> None:
    assert await begun(served) != await begun(served)
    assert header(served.written[0], "cb-id") != header(served.written[1], "cb-id")


@pytest.mark.parametrize(
    ("call", "message"), [("transactions", {**MESSAGE, "value": "two books"}), ("messages", MESSAGE)]
)
async def test_something_else_under_the_same_key_is_refused(served: Served, call: str, message: Any) -> None:
    once = {"idempotency-key": "order 17"}
    await begun(served, headers=once)
    answer = await served.client.post(f"{GROUP}/{call}", json={"message": message}, headers=once)
    assert (answer.status_code, answer.json()["type"]) == (422, "urn:checkback:once")
    assert len(served.written) == 1


async def test_keys_of_two_groups_are_two(served: Served) -> None:
    once = {"idempotency-key": "1"}
    await begun(served, headers=once)
    answer = await served.client.post("/v1/groups/b/transactions", json={"messages": [MESSAGE]}, headers=once)
    assert answer.status_code == 201
    assert len(served.written) == 2


async def test_what_kafka_did_not_take_is_tried_again_under_the_same_id(served: Served) -> None:
    once = {"idempotency-key": "1"}
    served.refusal = GatewayError(RefusalReason.KAFKA, "It may have it.")
    answer = await served.client.post(f"{GROUP}/transactions", json={"message": MESSAGE}, headers=once)
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
    served.refusal = None
    await begun(served, headers=once)


@pytest.mark.parametrize("key", ["", "k" * 256])
async def test_a_key_that_is_none_is_refused(served: Served, key: str) -> None:
    headers = {"idempotency-key": key}
    answer = await served.client.post(f"{GROUP}/transactions", json={"message": MESSAGE}, headers=headers)
    assert answer.status_code == 400
    assert "Idempotency-Key" in answer.json()["detail"]


@pytest.mark.parametrize("group", ["a b", "shop/eu", "ä", "a/transactions"])
async def test_a_groups_name_may_have_other_characters(served: Served, group: str) -> None:
    quoted = group.replace("/", "%2F").replace(" ", "%20").replace("ä", "%C3%A4")
    answer = await served.client.post(f"/v1/groups/{quoted}/transactions", json={"message": MESSAGE})
    assert answer.status_code == 201
    assert header(served.written[0], "cb-group") == group.encode()


async def test_an_endpoint_is_announced_as_check_services_read_it(served: Served) -> None:
    body = {"url": "https://shop.internal/checks", "topics": ["orders"], "batch": 20}
    answer = await served.client.put(ENDPOINT, json=body)
    assert (answer.status_code, answer.json()) == (200, {"repeat_within_s": 30})
    (record,) = served.written
    assert (record.topic, record.partition, record.key) == (TOPICS.producers, 0, b"shop/web-1")
    assert Announcement.from_record(record.value or b"") == Announcement(
        "shop", "web-1", "https://shop.internal/checks", NOW_MS, 20, ("orders",)
    )


async def test_an_announcement_is_taken_back_by_its_key(served: Served) -> None:
    answer = await served.client.delete(ENDPOINT)
    assert (answer.status_code, answer.content) == (204, b"")
    (record,) = served.written
    assert (record.topic, record.partition, record.key, record.value) == (
        *(TOPICS.producers, 0, b"shop/web-1"),
        None,
    )


async def test_what_an_account_writes_is_signed(tmp_path: Path) -> None:
    served = Served(access_in(tmp_path))
    served.client.headers["authorization"] = f"Bearer {TOKEN}"
    ticket = await begun(served)
    await served.client.post(f"/v1/transactions/{ticket}/commit")
    await served.client.put(ENDPOINT, json={"url": "http://10.0.0.7/"})
    await served.client.delete(ENDPOINT)
    assert [record.topic for record in served.written] == [
        *(TOPICS.half, TOPICS.op, TOPICS.producers, TOPICS.producers)
    ]
    for record in served.written:
        assert record.headers[-1][0] == "cb-signature"
        assert record.headers[-1][1].startswith(b"shop-1 ")


@pytest.mark.parametrize("method", ["PUT", "DELETE"])
async def test_an_announcement_waits_no_longer_for_kafka_than_clients_do(served: Served, method: str) -> None:
    served.slow = asyncio.Event()
    asyncio.get_running_loop().call_later(2.0, served.slow.set)
    served.transactions.patience_seconds = 0.01
    answer = await served.client.request(method, ENDPOINT, json={"url": "http://10.0.0.7/"})
    assert answer.status_code == 503
    assert "may have it" in answer.json()["detail"]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"url": "ftp://shop/"}, "cannot be announced"),
        ({"url": "http://0.0.0.0/"}, "nobody can ask at 0.0.0.0"),
        ({"url": "shop.internal"}, "cannot be announced"),
        ({"url": "http://shop/\r\nx: y"}, "cannot be announced"),
        ({"url": "http://shop/\na"}, "cannot be announced"),
        ({"url": "http://shop/a b"}, "cannot be announced"),
        ({}, "url: Field required"),
        ({"url": "http://shop/", "topics": []}, "topics"),
        ({"url": "http://shop/", "topics": ["a b"]}, "must be a name Kafka allows"),
        ({"url": "http://shop/", "batch": 0}, "batch"),
        ({"url": "http://shop/", "batch": 101}, "batch"),
        ({"url": "http://shop/", "key": "x"}, "key: nobody knows this field"),
    ],
)
async def test_an_endpoint_that_cannot_be_asked_is_refused(served: Served, body: Any, said: str) -> None:
    answer = await served.client.put(ENDPOINT, json=body)
    assert served.written == []
    assert answer.status_code == 400
    assert said in answer.json()["detail"]


@pytest.mark.parametrize("method", ["PUT", "DELETE"])
@pytest.mark.parametrize("name", ["a%20b", "n" * 65, "%C3%A4"])
async def test_an_endpoints_name_is_plain(served: Served, name: str, method: str) -> None:
    answer = await served.client.request(method, f"{GROUP}/endpoints/{name}", json={"url": "http://shop/"})
    assert answer.status_code == 400
    assert "An endpoint's name" in answer.json()["detail"]
    assert served.written == []


async def test_an_announcement_that_check_services_would_not_read_is_refused(served: Served) -> None:
    body = {"url": "http://shop/", "topics": ["t" * 249] * (MAX_ANNOUNCEMENT_BYTES // 249)}
    answer = await served.client.put(ENDPOINT, json=body)
    assert answer.status_code == 413
    assert served.written == []


async def test_a_gateway_says_whether_it_is_ready(served: Served) -> None:
    assert (await served.client.get("/live")).status_code == 200
    assert (await served.client.get("/ready")).status_code == 200
    served.ready = False
    assert (await served.client.get("/live")).status_code == 200
    assert (await served.client.get("/ready")).status_code == 503


async def test_calls_are_counted_by_name_and_status(served: Served) -> None:
    await begun(served)
    await served.client.post(f"{GROUP}/messages", content=b"{", headers={"content-type": "application/json"})
    await served.client.get(f"{GROUP}/checks?wait=0")
    await served.client.delete(ENDPOINT)
    assert served.called == [
        ("http", "begin", 201),
        ("http", "send", 400),
        ("http", "checks", 200),
        ("http", "take_back", 204),
    ]


async def test_a_body_may_be_as_large_as_its_messages(served: Served) -> None:
    """In base64 a value of the most bytes is a third longer."""
    largest = {"topic": "orders", "value": "v" * served.most_bytes}
    answer = await served.client.post(f"{GROUP}/transactions", json={"messages": [largest] * 5_000})
    assert answer.status_code == 201
    too_many = json.dumps({"messages": [largest] * 10_000}) + " " * (30 << 20)
    kind = {"content-type": "application/json"}
    answer = await served.client.post(f"{GROUP}/transactions", content=too_many, headers=kind)
    assert answer.status_code == 413


async def test_a_group_that_is_not_utf_8_is_refused(served: Served) -> None:
    """Two of them would become one: a server replaces what is not UTF-8 by the same character."""
    groups = ("%FF", "%FE", "sh%C3", "%EF%BF%BD", "sch%C3%B6n")
    asked = [f"/v1/groups/{group}/transactions" for group in groups]
    assert [(await served.client.post(path, json={"message": MESSAGE})).status_code for path in asked] == [
        400,
        400,
        400,
        201,
        201,
    ]
