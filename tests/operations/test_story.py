"""Where a transaction's records are looked for; the stories themselves: ``tests/checkback_cli/on_call``."""

import base64
import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkback.operations.half_search import windows
from checkback.operations.story import Sent, _spread, keyed_partition, partitions_of, sent_in
from checkback.wire import protocol
from checkback.wire.message_json import pack
from checkback.wire.protocol import Message
from tests.kafka.made_records import half

VECTORS = json.loads((Path(__file__).parents[2] / "docs" / "vectors" / "partitions.json").read_text(encoding="utf-8"))
MINUTES = 60_000


def bytes_of(said: Any) -> bytes:
    return base64.b64decode(said["base64"]) if isinstance(said, dict) else str(said).encode()


def test_a_half_message_holds_one_message() -> None:
    assert sent_in(half(value=b"v")) == [Sent("tx", Message("orders", b"v", b"k", (), None))]
    assert sent_in(half(1, (protocol.PARTITION, b"3")))[0].message.partition == 3


def test_or_several_with_numbered_ids() -> None:
    value = pack([Message("orders", b"one", b"k"), Message("points", b"two", None, (), 7)])
    found = sent_in(half(1, (protocol.MESSAGES, b"2"), value=value))
    assert [(one.transaction_id, one.message.topic) for one in found] == [("tx#1", "orders"), ("tx#2", "points")]
    assert found[1].message.partition == 7


@pytest.mark.parametrize("value", [b"", b"{}", b"\xff"])
def test_or_none_where_its_value_is_broken(value: bytes) -> None:
    assert sent_in(half(1, (protocol.MESSAGES, b"2"), value=value)) == []


def test_where_a_message_lands() -> None:
    assert partitions_of(Message("t", b"v"), 3) == [0, 1, 2]
    assert partitions_of(Message("t", b"v", b"k", (), 1), 3) == [1]
    assert partitions_of(Message("t", b"v", b"k", (), 5), 3) == []
    assert partitions_of(Message("t", b"v", b"order-17"), 8) == [keyed_partition(b"order-17", 8)]


@pytest.mark.parametrize("case", VECTORS["cases"], ids=lambda case: f"{case['key']!r:.20}-{case['partitions']}")
def test_a_key_lands_where_kafkas_own_partitioner_puts_it(case: dict[str, Any]) -> None:
    assert keyed_partition(bytes_of(case["key"]), case["partitions"]) == case["partition"]


@given(st.integers(0, 10**9), st.integers(0, 10**9))
def test_windows_go_back_to_the_end_without_a_gap(now_ms: int, since_ms: int) -> None:
    found = list(windows(now_ms, since_ms))
    if since_ms >= now_ms:
        assert found == []
        return
    assert (found[0][1], found[-1][0]) == (now_ms, since_ms)
    assert all(later[0] == earlier[1] for later, earlier in pairwise(found))
    assert len(found) < 30


def test_the_last_minutes_are_looked_at_first() -> None:
    assert list(windows(60 * MINUTES, 0))[:2] == [(55 * MINUTES, 60 * MINUTES), (45 * MINUTES, 55 * MINUTES)]


@given(st.lists(st.integers(0, 10**9)))
def test_moments_are_few_and_apart(moments: list[int]) -> None:
    found = _spread(moments)
    assert len(found) <= 20
    assert set(found) <= set(moments)
    assert all(later - earlier > MINUTES for earlier, later in pairwise(found))
    assert not moments or found[0] == min(moments)
