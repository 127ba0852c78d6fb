"""Frames to the columns of the state: half messages of several messages are looked into here."""

import json
from typing import Any

import pyarrow as pa
import pytest

from checkback.wire.limits import TOGETHER
from checkback.wire.message_json import pack, to_base64
from checkback.wire.protocol import Message, Topics
from state import BUNDLE, Event
from streaming.stateful.admission import Admission
from streaming.stateful.arrivals import arrivals_of
from streaming.stateful.decode import COLUMNS, HALF_KIND

ADMITS_ALL = Admission(now_ms=0, delay_max_ms=10**12)


def frame(value: bytes, count: int, *headers: tuple[str, bytes]) -> pa.RecordBatch:
    """A half message that says it holds so many messages."""
    packed = json.dumps([{"key": name, "value": to_base64(content)} for name, content in headers])
    given: dict[str, Any] = {
        "kind": HALF_KIND,
        "offset": 7,
        "event": 0,
        "transaction_id": "tx",
        "group": "g",
        "topic": "t",
    }
    given |= {"value": value, "headers": packed, "options": f",,,,{count}", "left_out": -1}
    return pa.RecordBatch.from_pylist([{**dict.fromkeys(COLUMNS), **given}])


def test_several_messages_are_one_half_message() -> None:
    found = arrivals_of([frame(pack([Message("t", b"1"), Message("u", b"2")]), 2, ("a", b"1"))], Topics(), ADMITS_ALL)
    assert (found.halves["partition"].tolist(), found.broken.count) == ([BUNDLE], 0)


@pytest.mark.parametrize("count", [100, 10])
def test_headers_that_would_be_copied_to_each_message_are_counted_with_each(count: int) -> None:
    # 996 KB that became 2.8 GB: headers of 995 KB beside thousands of messages without anything
    large = ("a", bytes(900_000))
    found = arrivals_of([frame(pack([Message("t", None)] * count), count, large)], Topics(), ADMITS_ALL)
    expected = [TOGETHER] if count == 100 else []
    assert (found.broken["reason"].tolist(), found.halves.count) == (expected, 1 - len(expected))


def test_what_says_that_it_holds_too_many_is_not_looked_into() -> None:
    found = arrivals_of([frame(b"no JSON", 1_000_000)], Topics(), ADMITS_ALL)
    assert found.broken["reason"].tolist() == [TOGETHER]


def test_a_message_whose_key_is_too_large_to_be_written_again() -> None:
    found = arrivals_of([frame(pack([Message("t", b"", bytes((1 << 20) + 1))]), 1)], Topics(), ADMITS_ALL)
    assert found.broken["reason"].tolist() == ["a message's key: 1,048,577 bytes, at most 1,048,576 are taken"]


def aside(**columns: Any) -> pa.RecordBatch:
    """A half message whose content was set aside."""
    row = frame(b"", 1).to_pylist()[0] | {"value": None, "headers": None, "left_out": 20_000, "options": None}
    return pa.RecordBatch.from_pylist([row | columns])


def test_what_is_wrong_with_several_messages_that_were_set_aside_is_not_known_yet() -> None:
    found = arrivals_of([aside(options=",,,,3")], Topics(), ADMITS_ALL)
    assert (found.halves["partition"].tolist(), found.halves["left_out"].tolist()) == ([BUNDLE], [20_000])
    assert found.content_bytes() == 20_000


def test_a_message_that_is_not_taken_in_is_read_again_whole() -> None:
    barred = Admission(0, 1_000, {"g": "quotas"})
    found = arrivals_of([aside(), aside(key=b"k", offset=8), aside(headers="[]", offset=9)], Topics(), barred)
    assert found.broken["left_out"].tolist() == [20_000] * 3
    names = [[pair["key"] for pair in json.loads(one)] if one else one for one in found.broken["headers"]]
    assert names == [None, None, ["cb-id", "cb-group", "cb-topic"]]
    assert found.content_bytes() > 60_000


@pytest.mark.parametrize(("options", "taken_in"), [(",,,5000,,1", 1), (",,,5000,", 0), (",,,,,1", 1)])
def test_the_jobs_own_half_messages_are_taken_in_though_their_headers_were_set_aside(
    options: str, taken_in: int
) -> None:
    barred = Admission(0, 1_000, {"g": "quotas"})
    event = int(Event.HALF_COMMIT if "5000" in options else Event.HALF_PARK)
    assert arrivals_of([aside(options=options, event=event)], Topics(), barred).halves.count == taken_in
