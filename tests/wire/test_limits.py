"""How large a message may be: the SDK refuses what the job would reject."""

from typing import Any

import pytest

from checkback.exceptions import ProtocolError
from checkback.wire.checks import CheckRequest
from checkback.wire.limits import (
    MAX_HEADER_BYTES,
    MAX_HEADERS,
    MAX_KEY_BYTES,
    MAX_UNFOLDED_BYTES,
    MAX_VALUE_BYTES,
    MESSAGE_BYTES,
    TOGETHER,
    refuse_several_too_large,
    refuse_too_large,
    several_too_large,
)
from checkback.wire.protocol import Message

GIVEN: dict[str, Any] = {"value": bytes(MAX_VALUE_BYTES), "key": bytes(MAX_KEY_BYTES)}
GIVEN["headers"] = [("a", b"")] * MAX_HEADERS


def test_what_is_as_large_as_may_be() -> None:
    refuse_too_large(**GIVEN)
    refuse_too_large(None, None, [("a", bytes(MAX_HEADER_BYTES - 1))])


@pytest.mark.parametrize(
    ("larger", "said"),
    [
        ({"value": bytes(MAX_VALUE_BYTES + 1)}, "value: 16,777,217 bytes, at most 16,777,216"),
        ({"key": bytes(MAX_KEY_BYTES + 1)}, "key: 1,048,577 bytes, at most 1,048,576"),
        ({"headers": [("a", b"")] * (MAX_HEADERS + 1)}, "headers: 1,001 headers, at most 1,000"),
        ({"headers": [("ü", bytes(MAX_HEADER_BYTES - 1))]}, "headers: 1,048,577 bytes, at most 1,048,576"),
    ],
    ids=["value", "key", "number of headers", "headers"],
)
def test_what_is_larger_by_one(larger: dict[str, Any], said: str) -> None:
    with pytest.raises(ProtocolError, match=said):
        refuse_too_large(**{**GIVEN, **larger})


def test_several_messages_are_bounded_by_what_they_unfold_to() -> None:
    count, common = 1_024, [("a", bytes(8_000))]
    each = MAX_UNFOLDED_BYTES // count - MESSAGE_BYTES
    fits = [Message("t", bytes(each - 2), b"k", [("h", b"")])] * count
    assert several_too_large(fits, ()) == ""
    assert several_too_large([*fits, Message("t", None)], ()) == TOGETHER
    assert several_too_large(fits, [("a", b"")]) == TOGETHER
    assert several_too_large([Message("t", b"")] * count, common) == ""
    assert several_too_large([Message("t", b"")] * (2 * count + 100), common) == TOGETHER


@pytest.mark.parametrize(
    "message",
    [
        Message("t", b"", bytes(MAX_KEY_BYTES + 1)),
        Message("t", b"", None, [("a", b"")] * (MAX_HEADERS + 1)),
        Message("t", b"", None, [("a", bytes(MAX_HEADER_BYTES))]),
    ],
    ids=["key", "number of headers", "headers"],
)
def test_each_of_several_messages_is_bounded_as_one_alone(message: Message) -> None:
    with pytest.raises(ProtocolError, match="a message's "):
        refuse_several_too_large([Message("t", b""), message])


def test_a_check_of_a_message_that_was_too_large_says_so_all_the_way() -> None:
    ours = [("cb-id", b"tx"), ("cb-group", b"g"), ("cb-topic", b"t"), ("cb-half", b"1:2"), ("cb-attempt", b"1")]
    ours += [("cb-check-max", b"15"), ("cb-ingested-ms", b"0"), ("cb-cut", b"1 99999999 80")]
    request = CheckRequest.from_record(None, ours)
    assert (request.left_out > 0, request.value, request.messages) == (True, None, ())
    assert CheckRequest.from_json(request.to_json()).left_out == request.left_out
    assert not CheckRequest.from_record(b"v", ours[:-1]).left_out
    assert "cut" not in CheckRequest.from_record(b"v", ours[:-1]).to_json()
