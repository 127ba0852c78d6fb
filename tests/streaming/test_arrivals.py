"""Frames to the columns of the state: half messages of several messages are looked into here."""

import json
from typing import Any

import pandas as pd
import pytest

from checkback.limits import TOGETHER
from checkback.protocol import Message, Topics, pack, to_base64
from state import BUNDLE
from streaming.arrivals import arrivals_of
from streaming.decode import COLUMNS, HALF_KIND


def frame(value: bytes, count: int, *headers: tuple[str, bytes]) -> pd.DataFrame:
    """A half message that says it holds so many messages."""
    packed = json.dumps([{"key": name, "value": to_base64(content)} for name, content in headers])
    given: dict[str, Any] = {"kind": HALF_KIND, "offset": 7, "event": 0, "tx_id": "tx", "group": "g", "topic": "t"}
    given |= {"value": value, "headers": packed, "options": f",,,,{count}"}
    return pd.DataFrame([{**dict.fromkeys(COLUMNS), **given}])


def test_several_messages_are_one_half_message() -> None:
    found = arrivals_of([frame(pack([Message("t", b"1"), Message("u", b"2")]), 2, ("a", b"1"))], Topics())
    assert (found.halves["partition"].tolist(), found.broken.count) == ([BUNDLE], 0)


@pytest.mark.parametrize("count", [100, 10])
def test_headers_that_would_be_copied_to_each_message_are_counted_with_each(count: int) -> None:
    # 996 KB that became 2.8 GB: headers of 995 KB beside thousands of messages without anything
    large = ("a", bytes(900_000))
    found = arrivals_of([frame(pack([Message("t", None)] * count), count, large)], Topics())
    expected = [TOGETHER] if count == 100 else []
    assert (found.broken["reason"].tolist(), found.halves.count) == (expected, 1 - len(expected))


def test_what_says_that_it_holds_too_many_is_not_looked_into() -> None:
    found = arrivals_of([frame(b"no JSON", 1_000_000)], Topics())
    assert found.broken["reason"].tolist() == [TOGETHER]


def test_a_message_whose_key_is_too_large_to_be_written_again() -> None:
    found = arrivals_of([frame(pack([Message("t", b"", bytes((1 << 20) + 1))]), 1)], Topics())
    assert found.broken["reason"].tolist() == ["a message's key: 1,048,577 bytes, at most 1,048,576 are taken"]
