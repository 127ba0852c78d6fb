"""Frames to the columns of the state: half messages of several messages are looked into here."""

import json
from typing import Any

import pyarrow as pa
import pytest

from access.policy import policy_of
from access.verifying import Verifier
from checkback.wire.limits import TOGETHER
from checkback.wire.message_json import pack
from checkback.wire.protocol import Message, Topics
from checkback.wire.signed_records import SigningKey, place_of, signature_header
from state import BUNDLE
from streaming.access.told import signed_dead_letter
from streaming.batch.headers import Headers, packed_headers
from streaming.fairness.barred import Barred
from streaming.stateful.admission import Admission
from streaming.stateful.arrivals import arrivals_of, wrong_with
from streaming.stateful.decode import COLUMNS, HALF_KIND, OTHER_HALF_KIND

SHOP, JOB = SigningKey("shop-1", "s" * 40), SigningKey("job-1", "j" * 40)
POLICY = """
[accounts.shop]
groups = ["shop"]
keys = ["shop-1"]
[accounts.programs]
keys = ["job-1"]
roles = ["job"]
"""
ADMITS_ALL = Admission(now_ms=0, delay_max_ms=10**12)
_ARROW = {"int": pa.int32(), "long": pa.int64(), "tinyint": pa.int8(), "string": pa.string(), "binary": pa.binary()}
SCHEMA = pa.schema({name: _ARROW[kind] for name, kind in COLUMNS.items()})


def frame(value: bytes | None, *headers: tuple[str, bytes], **columns: Any) -> pa.RecordBatch:
    """A half message that is not in our SDK's order."""
    written: Headers = [("cb-id", b"tx"), ("cb-group", b"g"), ("cb-topic", b"t"), *headers]
    given = {"kind": OTHER_HALF_KIND, "half_partition": 1, "offset": 7, "record_offset": 7, "left_out": -1}
    row = {**dict.fromkeys(COLUMNS), **given, "value": value, "headers": packed_headers(written), **columns}
    return pa.RecordBatch.from_pylist([row], schema=SCHEMA)


def several(count: int) -> tuple[str, bytes]:
    """Says that the value holds so many messages."""
    return ("cb-messages", b"%d" % count)


def test_several_messages_are_one_half_message() -> None:
    value = pack([Message("t", b"1"), Message("u", b"2")])
    found = arrivals_of([frame(value, several(2), ("a", b"1"))], Topics(), ADMITS_ALL)
    assert (found.halves["partition"].tolist(), found.broken.count) == ([BUNDLE], 0)


@pytest.mark.parametrize("count", [100, 10])
def test_headers_that_would_be_copied_to_each_message_are_counted_with_each(count: int) -> None:
    # 996 KB that became 2.8 GB: headers of 995 KB beside thousands of messages without anything
    large = ("a", bytes(900_000))
    found = wrong_with(pack([Message("t", None)] * count), [large], count, Topics(), lambda _topics: "")
    assert found == (TOGETHER if count == 100 else None)


def test_what_says_that_it_holds_too_many_is_not_looked_into() -> None:
    found = arrivals_of([frame(b"no JSON", several(1_000_000))], Topics(), ADMITS_ALL)
    assert found.broken["reason"].tolist() == [TOGETHER]


def test_a_message_whose_key_is_too_large_to_be_written_again() -> None:
    found = wrong_with(pack([Message("t", b"", bytes((1 << 20) + 1))]), [], 1, Topics(), lambda _topics: "")
    assert found == "a message's key: 1,048,577 bytes, at most 1,048,576 are taken"


@pytest.mark.parametrize("order", ["our SDK's", "another"])
@pytest.mark.parametrize("signing", [None, SHOP, JOB])
def test_a_retry_that_is_not_taken_in_is_a_dead_letter_if_the_job_has_signed_it(
    monkeypatch: pytest.MonkeyPatch, signing: SigningKey | None, order: str
) -> None:
    topics, in_order = Topics(), order == "our SDK's"
    verifier = Verifier(policy_of(POLICY), {"shop-1": SHOP, "job-1": JOB})
    monkeypatch.setattr("streaming.access.told.told_verifier", lambda: verifier)
    group: Headers = [("cb-id", b"tx"), ("cb-group", b"points"), ("cb-topic", topics.retry("points").encode())]
    more: Headers = [("cb-action", b"commit"), ("cb-deliver-at", b"99999"), ("trace", b"1")]
    written = [*group, *more] if in_order else [*more, *group]
    place, content = place_of(topics.half, 1), (b"k", b"v")
    signature = [] if signing is None else [signature_header(signing, place, 5, content, written)]
    columns: dict[str, Any] = {"headers": packed_headers([*written, *signature])}
    if in_order:
        named = {"transaction_id": b"tx", "group": b"points", "topic": topics.retry("points").encode()}
        last = signature[0][1] if signature else None
        columns = {"kind": HALF_KIND, **named, "headers": packed_headers(more), "signature": last}
    admission = Admission(0, 1_000, verifier=verifier)
    found = arrivals_of([frame(b"v", key=b"k", time_ms=5, **columns)], topics, admission).broken
    row = {name: found[name].tolist()[0] for name in ("topic", "key", "value", "headers", "reason")}
    letter = signed_dead_letter({**row, "half_partition": 1}, topics)
    assert (letter is not None) == (signing is JOB)
    if letter:
        topic, headers = letter
        assert (topic, headers[0]) == (topics.dead("points"), ("trace", b"1"))
        assert "transactions.delay_max" in row["reason"]


def aside(*headers: tuple[str, bytes], **columns: Any) -> pa.RecordBatch:
    """A half message whose value was set aside."""
    return frame(None, *headers, left_out=20_000, **columns)


def test_what_is_wrong_with_several_messages_that_were_set_aside_is_not_known_yet() -> None:
    found = arrivals_of([aside(several(3))], Topics(), ADMITS_ALL)
    assert (found.halves["partition"].tolist(), found.halves["left_out"].tolist()) == ([BUNDLE], [20_000])
    assert found.content_bytes() > 20_000


def test_a_message_that_is_not_taken_in_is_read_again_whole() -> None:
    barred = Admission(0, 1_000, Barred({"g": "quotas"}))
    large = ("a", bytes(5_000))
    in_order = {"kind": HALF_KIND, "transaction_id": b"tx", "group": b"g", "topic": b"t", "headers": None}
    found = arrivals_of([aside(large), aside(key=b"k", offset=8), aside(offset=9, **in_order)], Topics(), barred)
    left_out = dict(zip(found.broken["offset"].tolist(), found.broken["left_out"].tolist(), strict=True))
    assert left_out == {7: 20_000 + 5_000 + len("cb-idtxcb-groupgcb-topicta"), 8: 20_000, 9: 20_000}
    headers = zip(found.broken["offset"].tolist(), found.broken["headers"], strict=True)
    named = {offset: packed and [pair["key"] for pair in json.loads(packed)] for offset, packed in headers}
    assert named == {7: None, 8: ["cb-id", "cb-group", "cb-topic"], 9: None}
    assert found.content_bytes() > 60_000


@pytest.mark.parametrize(
    ("headers", "taken_in"),
    [
        ([("cb-action", b"commit"), ("cb-deliver-at", b"5000"), ("cb-held", b"1 2 3:4")], 1),
        ([("cb-action", b"commit"), ("cb-deliver-at", b"5000")], 0),
        ([("cb-action", b"park"), ("cb-held", b"1 2 3:4")], 1),
    ],
)
def test_the_jobs_own_half_messages_are_taken_in_though_their_headers_were_set_aside(
    headers: list[tuple[str, bytes]], taken_in: int
) -> None:
    barred = Admission(0, 1_000, Barred({"g": "quotas"}))
    found = arrivals_of([aside(*headers, ("a", bytes(5_000)))], Topics(), barred)
    assert found.halves.count == taken_in
    assert (found.halves if taken_in else found.broken)["headers"].tolist() == [None]
    assert found.halves["held"].tolist() == [1] * taken_in
