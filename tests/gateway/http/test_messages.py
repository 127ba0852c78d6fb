"""Messages as JSON spells them: whatever bytes they have, they come back."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkback.wire.checks import CheckRequest
from checkback.wire.protocol import HalfPosition, Message, TransactionOptions
from gateway.http.messages import MOST_MESSAGES, MessageBody, TransactionBody, check_json, message_json
from gateway.http.reading import read_json
from gateway.refusals import GatewayError, RefusalReason

_TEXT = st.text(st.characters(codec="utf-8"), max_size=20)
_BYTES = st.binary(max_size=20) | _TEXT.map(str.encode)
_MESSAGES = st.builds(
    Message,
    topic=_TEXT,
    value=_BYTES,
    key=st.none() | _BYTES,
    headers=st.lists(st.tuples(_TEXT, _BYTES), max_size=4),
    partition=st.none() | st.integers(0, 999_999_999),
)


def read(**fields: Any) -> MessageBody:
    return read_json(json.dumps({"topic": "orders", **fields}).encode(), MessageBody)


@given(_MESSAGES)
def test_a_message_that_was_spelled_is_read_as_it_was(message: Message) -> None:
    said = json.dumps(message_json(message)).encode()
    assert read_json(said, MessageBody).message(1_000) == message


@given(_BYTES, _BYTES)
def test_a_check_has_the_messages_that_were_posted(key: bytes, value: bytes) -> None:
    check = CheckRequest("tx", "shop", "orders", key, value, [("a", value)], HalfPosition(0, 7), 1, 15, 0)
    said = check_json(check, "ticket")
    (message,) = said["messages"]
    assert (said["transaction"], said["id"], said["attempt"]) == ("ticket", "tx", 1)
    assert read_json(json.dumps(message).encode(), MessageBody).message(1_000) == Message(
        "orders", value, key, [("a", value)]
    )


def test_text_is_text_and_other_bytes_are_base64() -> None:
    said = message_json(Message("orders", b"\xff\x00", "ä".encode(), [("a", b"b"), ("c", b"\xff")]))
    assert said == {
        "topic": "orders",
        "key": "ä",
        "value_base64": "/wA=",
        "headers": [{"name": "a", "value": "b"}, {"name": "c", "value_base64": "/w=="}],
    }


def test_several_messages_are_in_a_check_as_they_were_posted() -> None:
    messages = (Message("orders", b"a"), Message("bills", b"b", b"k", [("h", b"1")], 3))
    check = CheckRequest("tx", "shop", "orders", None, None, [], HalfPosition(0, 7), 1, 15, 0, messages)
    assert [
        read_json(json.dumps(one).encode(), MessageBody).message(9) for one in check_json(check, "")["messages"]
    ] == [message._replace(headers=list(message.headers)) for message in messages]


def test_a_value_that_was_left_out_is_not_null() -> None:
    check = CheckRequest("tx", "shop", "orders", b"k", None, [], HalfPosition(0, 7), 1, 15, 0, left_out=70_000)
    said = check_json(check, "ticket")
    assert said["left_out"] == 70_000
    assert said["messages"] == [{"topic": "orders", "key": "k", "headers": []}]


@pytest.mark.parametrize(
    "headers",
    [
        {"a": "1", "b": "2"},
        [["a", "1"], ["b", "2"]],
        [{"name": "a", "value": "1"}, ["b", "2"]],
        [{"name": "a", "value_base64": "MQ=="}, {"name": "b", "value_base64": "Mg=="}],
    ],
)
def test_headers_may_be_written_in_three_ways(headers: Any) -> None:
    assert read(value="", headers=headers).headers == (("a", b"1"), ("b", b"2"))


def test_a_name_may_come_twice() -> None:
    assert read(value="", headers=[["a", "1"], ["a", "2"]]).headers == (("a", b"1"), ("a", b"2"))


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({}, "say value or value_base64"),
        ({"value": "a", "value_base64": "YQ=="}, "say value or value_base64"),
        ({"value": "a", "key": "a", "key_base64": "YQ=="}, "key or key_base64, not both"),
        ({"value": None}, "a tombstone, and needs a key"),
        ({"value": {"total": 42}}, "value: it should be a valid string"),
        ({"value_base64": "YQ"}, "value_base64: must be text in base64"),
        ({"value_base64": "Y-_="}, "value_base64: must be text in base64"),
        ({"value_base64": None}, "value_base64: must be text in base64"),
        ({"value": "a", "key_base64": 7}, "key_base64: must be text in base64"),
        ({"value": "a", "vlaue": "a"}, "vlaue: nobody knows this field"),
        ({"value": "a", "partition": -1}, "partition: it should be greater than or equal to 0"),
        ({"value": "a", "partition": "1"}, "partition: it should be a valid integer"),
        ({"value": "a", "partition": True}, "partition: it should be a valid integer"),
        ({"value": "a", "topic": None}, "topic: it should be a valid string"),
        ({"value": "a", "headers": "a=1"}, 'headers: must be {"name": "text", ...}'),
        ({"value": "a", "headers": None}, 'headers: must be {"name": "text", ...}'),
        ({"value": "a", "headers": {"a": 1}}, "headers: a header's name and value must be text"),
        ({"value": "a", "headers": {"a": None}}, "headers: a header's name and value must be text"),
        ({"value": "a", "headers": [["a"]]}, "headers: each header is a list of two texts"),
        ({"value": "a", "headers": ["ab"]}, "headers: each header is a list of two texts"),
        ({"value": "a", "headers": [{"name": "a"}]}, "headers: each header as an object"),
        ({"value": "a", "headers": [{"value": "a"}]}, "headers: a header's name and value must be text"),
        ({"value": "a", "headers": [{"name": "a", "value": "", "x": 1}]}, "headers: each header as an object"),
    ],
)
def test_what_is_no_message_is_refused_by_the_fields_name(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(GatewayError) as refused:
        read(**fields)
    assert refused.value.refusal is RefusalReason.REQUEST
    assert said in str(refused.value)


def test_a_tombstone_has_a_key() -> None:
    assert read(value=None, key="17").message(0) == Message("orders", None, b"17", [])
    assert read(value=None, key_base64="MTc=").message(0) == Message("orders", None, b"17", [])


def test_a_value_has_as_many_bytes_as_the_gateway_takes() -> None:
    assert read(value="ää").message(4).value == "ää".encode()
    with pytest.raises(GatewayError, match=r"more than 3 bytes \(gateway.max_body\)") as refused:
        read(value="ää").message(3)
    assert refused.value.refusal is RefusalReason.TOO_LARGE


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"", "The body is not JSON"),
        (b"topic=orders", "The body is not JSON"),
        (b'{"message": {"topic": "orders", "value": "\\ud800"}}', "The body is not JSON"),
        (b'{"message": {"topic": "orders", "value": "\xff"}}', "The body is not JSON"),
        (b"[" * 100_000, "The body is not JSON"),
        (b"[]", "it should be an object"),
        (b"{}", "say message or messages"),
        (b'{"messages": []}', "messages: List should have at least 1 item"),
        (b'{"messages": [7]}', "messages.0: it should be an object"),
        (b'{"messages": [{"topic": "a", "value": "", "a": 1}]}', "messages.0.a: nobody knows this field"),
        (b'{"message": {"topic": "a", "value": ""}, "messages": [{"topic": "a", "value": ""}]}', "message or messages"),
        (b'{"message": {"topic": "a", "value": ""}, "check_max": -1}', "check_max"),
        (b'{"message": {"topic": "a", "value": ""}, "check_immunity_ms": 1000000000000000}', "check_immunity_ms"),
        (b'{"message": {"topic": "a", "value": ""}, "deliver_at_ms": 1.5}', "deliver_at_ms"),
    ],
)
def test_what_is_no_transaction_is_refused(body: bytes, said: str) -> None:
    with pytest.raises(GatewayError) as refused:
        read_json(body, TransactionBody)
    assert refused.value.refusal is RefusalReason.REQUEST
    assert said in str(refused.value)


def test_of_many_mistakes_five_are_named() -> None:
    body = json.dumps({"messages": [{"topic": 1, "value": ""}] * 9})
    with pytest.raises(GatewayError, match=r"messages.4.topic: .*; and 4 more\.$"):
        read_json(body.encode(), TransactionBody)


def test_messages_of_one_transaction_are_bounded() -> None:
    one = {"topic": "orders", "value": ""}
    read_json(json.dumps({"messages": [one] * MOST_MESSAGES}).encode(), TransactionBody)
    with pytest.raises(GatewayError, match="at most 10000 items"):
        read_json(json.dumps({"messages": [one] * (MOST_MESSAGES + 1)}).encode(), TransactionBody)


def test_options_are_the_transactions() -> None:
    body = b'{"message": {"topic": "a", "value": ""}, "check_immunity_ms": 5, "check_max": 6, "deliver_at_ms": 7}'
    assert read_json(body, TransactionBody).options() == TransactionOptions(5, 6, 7)


def test_of_very_many_mistakes_none_is_spelled() -> None:
    """A million of them took seconds, in which nobody else was answered."""
    body = json.dumps({str(number): 0 for number in range(1_000)}).encode()
    with pytest.raises(GatewayError, match=r"1,00\d mistakes, too many to name"):
        read_json(body, TransactionBody)
