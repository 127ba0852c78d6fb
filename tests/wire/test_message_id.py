"""What names a message."""

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkback.consumer import ReceivedMessage
from checkback.wire.message_id import MAX_BYTES, message_id


def record(*headers: tuple[str, bytes | None], topic: str = "orders") -> Any:
    """As kafka-python gives it."""
    return SimpleNamespace(topic=topic, partition=3, offset=17, headers=list(headers), timestamp=1_700)


def confluent(headers: list[tuple[str, bytes | None]] | None) -> Any:
    """As confluent-kafka gives it: methods, and None for no headers."""
    fields = {"topic": "orders", "partition": 3, "offset": 17, "headers": headers, "timestamp": (1, 1_700)}
    return SimpleNamespace(**{name: lambda field=field: field for name, field in fields.items()})


def test_the_header_is_the_id_of_a_message() -> None:
    assert message_id(record(("trace", b"1"), ("cb-id", b"tx-17"))) == "tx-17"
    assert message_id(record(("cb-id", b"tx-17#2"))) == "tx-17#2"
    assert message_id(confluent([("cb-id", b"tx-17")])) == "tx-17"


def test_without_one_it_is_the_place_and_the_time() -> None:
    """The place alone is another message's, too, once the topic was made again."""
    assert message_id(record()) == "orders:3:17@1700"
    assert message_id(confluent(None)) == "orders:3:17@1700"
    assert message_id(ReceivedMessage("orders", 3, 17, None, b"", (), 1_700)) == "orders:3:17@1700"
    assert message_id(record(("cb-id", None))) == message_id(record(("cb-id", b""))) == "orders:3:17@1700"


@pytest.mark.parametrize("unknown", [-1, 0])
def test_where_kafka_knows_no_time_it_is_the_place(unknown: int) -> None:
    assert message_id(ReceivedMessage("orders", 3, 17, None, b"", (), unknown)) == "orders:3:17"


def test_text_is_an_id() -> None:
    assert message_id("tx-17") == "tx-17"
    assert message_id("a\0b\ud800") == "a\\x00b\\ud800"


def test_the_longest_place_is_kept_and_longer_ids_are_a_hash() -> None:
    longest = record(topic="t" * 249)
    longest.partition, longest.offset, longest.timestamp = 2**31 - 1, 2**63 - 1, 2**63 - 1
    assert message_id(longest) == f"{'t' * 249}:{2**31 - 1}:{2**63 - 1}@{2**63 - 1}"
    one, other = (message_id("x" * MAX_BYTES + end) for end in "ab")
    assert one != other
    assert one.startswith("sha256:")


@given(st.binary(min_size=1, max_size=400))
def test_whatever_a_header_holds_can_be_stored(content: bytes) -> None:
    name = message_id(record(("cb-id", content)))
    assert 0 < len(name.encode()) <= MAX_BYTES
    assert "\0" not in name


def test_what_is_no_message_is_refused() -> None:
    with pytest.raises(TypeError, match="not dict"):
        message_id({"cb-id": "tx-17"})
