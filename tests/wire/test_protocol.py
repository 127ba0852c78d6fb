"""The wire protocol: what is written is read back, and what breaks it is refused."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkback import CheckRequest, HalfPosition, ProtocolError, Topics
from checkback.wire.checks import Announcement, announcement_key
from checkback.wire.message_json import pack, unpack
from checkback.wire.protocol import VERSION, Action, Headers, Message, Source, half_headers, op_headers

REQUEST = CheckRequest(
    transaction_id="tx-17",
    group="orders",
    topic="shop.orders",
    key=b"order-17",
    value=b'{"total":42}',
    headers=[("trace-id", b"\x00\xff")],
    half=HalfPosition(3, 81_923),
    attempt=1,
    check_max=15,
    ingested_ms=1_767_225_600_000,
)
# docs/protocol.md, "Over HTTP"
BODY = {
    "version": 1,
    "id": "tx-17",
    "group": "orders",
    "topic": "shop.orders",
    "key": "b3JkZXItMTc=",
    "payload": "eyJ0b3RhbCI6NDJ9",
    "headers": [["trace-id", "AP8="]],
    "half": "3:81923",
    "attempt": 1,
    "check_max": 15,
    "ingested_ms": 1_767_225_600_000,
}


def test_all_topics_stand_under_one_prefix() -> None:
    names = [
        "half",
        "op",
        "check",
        "parked",
        "rejected",
        "status",
        "producers",
        "progress",
        "control",
        "later",
        "audit",
    ]
    assert Topics().all() == tuple(f"cb.{name}" for name in names)
    assert Topics("test-").all() == tuple(f"test-{name}" for name in names)


class TestHalfPosition:
    @given(st.integers(0, 2**31 - 1), st.integers(0, 2**63 - 1))
    def test_what_is_spelled_is_read_back(self, partition: int, offset: int) -> None:
        assert HalfPosition.parse(str(HalfPosition(partition, offset))) == HalfPosition(partition, offset)

    @pytest.mark.parametrize(
        "text",
        [
            *("", ":", "1", "1:", ":1", "1:2:3", "1;2"),
            *("a:1", "1:a", "-1:1", "1:-1", "+1:1", "1.0:1", "0x1:1", "1_0:1"),
            *(" 1:2", "1:2 ", "1 :2", "1:2\n"),
            *("01:2", "1:02", "00:0", "0:00"),
            *("²:1", "1:²", "٣:1", "1:٣"),
            "1:" + "9" * 5_000,
        ],
        ids=lambda text: repr(text[:10]),
    )
    def test_anything_else_is_refused(self, text: str) -> None:
        with pytest.raises(ProtocolError, match="cb-half must"):
            HalfPosition.parse(text)


class TestHalfHeaders:
    def test_ours_come_first_in_the_order_decoded_fastest(self) -> None:
        application = [("b", b"2"), ("a", b"1"), ("b", b"2"), ("empty", b"")]
        ours = [("cb-id", b"tx"), ("cb-group", b"orders"), ("cb-topic", b"paid")]
        assert half_headers("tx", "orders", "paid", application) == [*ours, *application]

    def test_a_partition_follows_our_three(self) -> None:
        following = half_headers("tx", "orders", "paid", [("a", b"1")], partition=0)[2:]
        assert following == [("cb-topic", b"paid"), ("cb-partition", b"0"), ("a", b"1")]

    def test_text_is_utf8(self) -> None:
        assert half_headers("ü", "größe", "paid")[:2] == [("cb-id", "ü".encode()), ("cb-group", "größe".encode())]

    @pytest.mark.parametrize(("name", "most"), [("transaction_id", 64), ("group", 255), ("topic", 249)])
    def test_limits_are_in_bytes(self, name: str, most: int) -> None:
        given: dict[str, Any] = {"transaction_id": "tx", "group": "orders", "topic": "paid"}
        half_headers(**{**given, name: "x" * most})
        for text in ("", "x" * (most + 1), "ü" * (most // 2 + 1)):
            with pytest.raises(ProtocolError, match=f"must have 1 to {most} bytes"):
                half_headers(**{**given, name: text})

    @pytest.mark.parametrize("topic", ["two words", ".", "..", "größe", "a/b", "a\n"])
    def test_a_topic_kafka_would_refuse_is_refused(self, topic: str) -> None:
        # the job would reject the half message, after its local transaction has committed
        with pytest.raises(ProtocolError, match="cb-topic"):
            half_headers("tx", "orders", topic)

    @pytest.mark.parametrize("name", ["cb-", "cb-id", "cb-mine"])
    def test_our_prefix_is_reserved(self, name: str) -> None:
        with pytest.raises(ProtocolError, match=f"'{name}'.*Checkback's own"):
            half_headers("tx", "orders", "paid", [("a", b"1"), (name, b"")])

    @pytest.mark.parametrize("name", ["", "cb", "CB-id", "x-cb-id", "cbid"])
    def test_names_like_it_are_not(self, name: str) -> None:
        assert half_headers("tx", "orders", "paid", [(name, b"1")])[-1] == (name, b"1")

    @pytest.mark.parametrize("partition", [-1, 1_000_000_000])
    def test_a_partition_that_cannot_be_is_refused(self, partition: int) -> None:
        # nine digits at most: the job would reject the half message, after its local transaction has committed
        with pytest.raises(ProtocolError, match="cb-partition"):
            half_headers("tx", "orders", "paid", partition=partition)


@pytest.mark.parametrize("action", Action)
@pytest.mark.parametrize("source", Source)
def test_op_headers_stand_in_the_order_decoded_fastest(action: Action, source: Source) -> None:
    assert op_headers("tx", "orders", HalfPosition(3, 14), action, source) == [
        *(("cb-id", b"tx"), ("cb-group", b"orders"), ("cb-half", b"3:14")),
        *(("cb-action", action.value.encode()), ("cb-source", source.value.encode())),
    ]


def variants() -> list[CheckRequest]:
    return [
        REQUEST,
        replace(REQUEST, key=None),
        replace(REQUEST, value=None),
        replace(REQUEST, key=b"", value=b""),
        replace(REQUEST, headers=[]),
        replace(REQUEST, headers=[("b", b"2"), ("a", b"1"), ("b", b"2"), ("b", b""), ("", b"x"), ("ü", b"\xff")]),
    ]


class TestCheckRequestInJson:
    def test_it_is_the_documents_example(self) -> None:
        assert REQUEST.to_json() == BODY
        assert CheckRequest.from_json(BODY) == REQUEST

    @pytest.mark.parametrize("request_", variants())
    def test_it_is_read_back(self, request_: CheckRequest) -> None:
        assert CheckRequest.from_json(json.loads(json.dumps(request_.to_json()))) == request_

    @given(
        st.builds(
            CheckRequest,
            transaction_id=st.text(),
            group=st.text(),
            topic=st.text(),
            key=st.none() | st.binary(),
            value=st.none() | st.binary(),
            headers=st.lists(st.tuples(st.text(), st.binary())),
            half=st.builds(HalfPosition, st.integers(0, 2**31 - 1), st.integers(0, 2**63 - 1)),
            attempt=st.integers(0, 2**31),
            check_max=st.integers(0, 2**31),
            ingested_ms=st.integers(-(2**62), 2**62),
            left_out=st.integers(0, 10**9),
        )
    )
    def test_any_is_read_back(self, request_: CheckRequest) -> None:
        assert CheckRequest.from_json(json.loads(json.dumps(request_.to_json()))) == request_

    def test_a_value_that_is_left_out_is_said_to_be_so(self) -> None:
        left_out = replace(REQUEST, value=None, left_out=800_000)
        assert left_out.to_json() == {**BODY, "payload": None, "left_out": 800_000}
        _, value, headers = left_out.to_record()
        assert ("cb-left-out", b"800000") in headers
        assert CheckRequest.from_record(value, headers) == left_out

    def test_a_missing_version_is_the_first(self) -> None:
        assert CheckRequest.from_json({name: value for name, value in BODY.items() if name != "version"}) == REQUEST

    def test_fields_of_later_versions_are_ignored(self) -> None:
        assert CheckRequest.from_json({**BODY, "later": 1}) == REQUEST

    @pytest.mark.parametrize("version", [VERSION + 1, 99, "1", None, [1]])
    def test_another_version_is_refused(self, version: object) -> None:
        with pytest.raises(ProtocolError, match="version" if isinstance(version, int) else "Not a check request"):
            CheckRequest.from_json({**BODY, "version": version})

    @pytest.mark.parametrize("name", [name for name in BODY if name != "version"])
    def test_no_field_may_be_missing(self, name: str) -> None:
        with pytest.raises(ProtocolError, match=f"Not a check request: KeyError\\('{name}'\\)"):
            CheckRequest.from_json({field: value for field, value in BODY.items() if field != name})

    @pytest.mark.parametrize(
        "change",
        [
            *({"key": 1}, {"key": "no base64!"}, {"payload": "YQ"}, {"payload": ["YQ=="]}, {"headers": None}),
            *({"headers": [["alone"]]}, {"headers": [["a", "YQ==", "b"]]}, {"headers": {"a": "YQ=="}}),
            *({"half": None}, {"half": 3}, {"half": "3"}, {"half": "03:1"}, {"attempt": "one"}),
            *({"attempt": None}, {"check_max": []}),
            *({"ingested_ms": float("inf")}, {"ingested_ms": float("nan")}),
        ],
        ids=str,
    )
    def test_a_wrong_field_is_refused(self, change: dict[str, Any]) -> None:
        with pytest.raises(ProtocolError):
            CheckRequest.from_json({**BODY, **change})

    @pytest.mark.parametrize("body", [None, [], "text", 1])
    def test_what_is_no_object_is_refused(self, body: Any) -> None:
        with pytest.raises(ProtocolError, match="Not a check request"):
            CheckRequest.from_json(body)


class TestSeveralMessages:
    def one(self, **changed: Any) -> bytes:
        message = {"topic": "paid", "partition": None, "key": None, "payload": "AA==", "headers": [], **changed}
        return json.dumps({"messages": [message]}).encode()

    def test_it_is_read_back(self) -> None:
        messages = (Message("paid", b"\x00", b"k", [("ü", b"\xff")], 3), Message("gone", None))
        expected = [message._replace(headers=list(message.headers)) for message in messages]
        assert [message._replace(headers=list(message.headers)) for message in unpack(pack(messages))] == expected

    @pytest.mark.parametrize(
        "change",
        [
            *({"partition": wrong} for wrong in (float("inf"), float("nan"), -1, 10**9, 1.5, True, "1", [], {})),
            *({"topic": wrong} for wrong in (None, "", "..", "a b", "\ud800", "a" * 250, 1, [])),
            *({"payload": wrong} for wrong in ("=", "ü", 1, [], {"a": 1})),
            *({"headers": wrong} for wrong in ({}, 1, "ab", [1], [["a"]], [["a", 1]], [[1, ""]], [["cb-id", ""]])),
            {"headers": [["\ud800", ""]]},  # the sink's client would not survive it
            {"headers": [["a\0b", ""]]},  # the sink's client would cut it off
        ],
        ids=str,
    )
    def test_what_is_wrong_in_one_is_refused(self, change: dict[str, Any]) -> None:
        with pytest.raises(ProtocolError):
            unpack(self.one(**change))

    def test_what_is_missing_is_null(self) -> None:
        bare = json.dumps({"messages": [{"topic": "paid"}, {"topic": "paid", "headers": [["a", None]]}]}).encode()
        first, second = unpack(bare)
        assert first == Message("paid", None, None, [], None)
        assert dict(second.headers) == dict.fromkeys(["a"])

    @pytest.mark.parametrize(
        ("change", "reason"),
        [
            ({"topic": None}, "the topic of message 1 is not text"),
            ({"partition": "1"}, "the partition of message 1 is not a whole number"),
            ({"key": "="}, "the key of message 1 is not base64"),
            ({"payload": "_-8="}, "the payload of message 1 is not base64"),  # the alphabet for URLs is another
            ({"payload": "AA"}, "the payload of message 1 is not base64"),  # without padding
            ({"headers": {}}, r"the headers of message 1 are not a list of \[name, value\]"),
            ({"headers": [["a", 1]]}, "header 'a' of message 1 is not base64"),
        ],
    )
    def test_the_reason_says_which_field_of_which_message(self, change: dict[str, Any], reason: str) -> None:
        with pytest.raises(ProtocolError, match=reason):
            unpack(self.one(**change))

    @pytest.mark.parametrize(
        "value",
        [
            *(None, b"", b"\xff\xfe\x00", b"null", b"[]", b"{}", b'{"messages": {}}', b'{"messages": [[]]}'),
            *(b"[" * 100_000, b'{"messages":' * 50_000, b'{"messages": [' + b"9" * 5_000 + b"]}"),
        ],
        ids=lambda value: repr(value)[:30],
    )
    def test_what_is_no_list_of_messages_is_refused(self, value: bytes | None) -> None:
        with pytest.raises(ProtocolError, match="Not a value of several messages"):
            unpack(value)


class TestCheckRequestInKafka:
    def test_headers_stand_in_the_documents_order(self) -> None:
        headers = [
            *(("cb-id", b"tx-17"), ("cb-group", b"orders"), ("cb-topic", b"shop.orders"), ("cb-half", b"3:81923")),
            *(("cb-attempt", b"1"), ("cb-check-max", b"15"), ("cb-ingested-ms", b"1767225600000")),
            *(("cb-key", b"order-17"), ("trace-id", b"\x00\xff")),
        ]
        assert REQUEST.to_record() == (b"tx-17", b'{"total":42}', headers)

    @pytest.mark.parametrize("request_", variants())
    def test_it_is_read_back(self, request_: CheckRequest) -> None:
        _, value, headers = request_.to_record()
        assert CheckRequest.from_record(value, headers) == request_

    def test_the_order_of_our_headers_is_free(self) -> None:
        _, value, headers = REQUEST.to_record()
        assert CheckRequest.from_record(value, headers[::-1]) == REQUEST

    def test_headers_of_ours_that_are_not_known_are_ignored(self) -> None:
        _, value, headers = REQUEST.to_record()
        assert CheckRequest.from_record(value, [*headers, ("cb-later", b"1")]) == REQUEST

    @pytest.mark.parametrize("content", [None, b"\xff", b"", "gone"])
    @pytest.mark.parametrize("name", ["cb-half", "cb-attempt", "cb-check-max", "cb-ingested-ms"])
    def test_a_header_that_cannot_be_read_is_refused(self, name: str, content: Any) -> None:
        _, value, headers = REQUEST.to_record()
        with pytest.raises(ProtocolError, match=r"Not a record of a check|cb-half must"):
            CheckRequest.from_record(value, changed(headers, name, content))

    @pytest.mark.parametrize("content", [b"-1", b"1_0", b" 1", b"9" * 16])
    @pytest.mark.parametrize("name", ["cb-attempt", "cb-check-max", "cb-ingested-ms"])
    def test_a_number_has_digits_only_and_no_more_than_it_may(self, name: str, content: bytes) -> None:
        _, value, headers = REQUEST.to_record()
        with pytest.raises(ProtocolError, match="no number of at most"):
            CheckRequest.from_record(value, changed(headers, name, content))

    @pytest.mark.parametrize("content", [None, b"\xff", "gone"])
    @pytest.mark.parametrize("name", ["cb-id", "cb-group", "cb-topic"])
    def test_a_text_that_is_none_is_refused(self, name: str, content: Any) -> None:
        _, value, headers = REQUEST.to_record()
        with pytest.raises(ProtocolError, match="Not a record of a check"):
            CheckRequest.from_record(value, changed(headers, name, content))


def changed(headers: Headers, name: str, content: Any) -> list[tuple[str, Any]]:
    """Headers with other content of one of them, or without it."""
    others = [(other, kept) for other, kept in headers if other != name]
    return others if content == "gone" else [(name, content), *others]


class TestAnnouncement:
    def test_it_is_read_back(self) -> None:
        announced = Announcement("größe", "a", "http://one:80/", 1_767_225_600_000)
        key, value = announced.to_record()
        assert key == announcement_key("größe", "a") == "größe/a".encode()
        assert Announcement.from_record(value) == announced

    @pytest.mark.parametrize("name", ["group", "instance", "url", "time_ms"])
    def test_no_field_may_be_missing(self, name: str) -> None:
        body = {"group": "orders", "instance": "a", "url": "http://one/", "time_ms": 1}
        del body[name]
        with pytest.raises(ProtocolError, match="Not an announcement"):
            Announcement.from_record(json.dumps(body).encode())

    @pytest.mark.parametrize("value", [b"", b"\xff", b"[]", b"1", b'{"group": "g"', b'{"time_ms": Infinity}'])
    def test_what_is_none_is_refused(self, value: bytes) -> None:
        with pytest.raises(ProtocolError, match="Not an announcement"):
            Announcement.from_record(value)


def test_the_page_lists_the_headers_of_a_check_in_their_order() -> None:
    several = (Message("a", b"1"), Message("b", b"2"))
    whole = replace(REQUEST, value=None, messages=several, left_out=70_000, lane=32 * "a", ask_limit_ms=1, headers=[])
    written = [name for name, _ in whole.to_record()[2]]
    page = (Path(__file__).parents[2] / "docs" / "protocol.md").read_text(encoding="utf-8")
    table = page.partition("### `cb.check`")[2].partition("| --- | --- |")[2].partition("\n\n")[0]
    first_column = "\n".join(row.split("|")[1] for row in table.strip().splitlines())
    assert re.findall(r"`(cb-[a-z-]+)`", first_column) == [*written, "cb-cut"]
