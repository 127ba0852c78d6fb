"""RocketMQ's messages as Kafka's, and back."""

import gzip

import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp
from hypothesis import given
from hypothesis import strategies as st

from checkback.wire.checks import CheckRequest
from checkback.wire.protocol import HalfPosition, TransactionOptions
from gateway.refusals import GatewayError, RefusalReason
from gateway.rocketmq.messages import (
    GRPC_BYTES,
    LEFT_OUT_PROPERTY,
    MOST_MESSAGES,
    incoming,
    orphaned,
    refuse_many_fields,
    topic_of,
)
from gateway.rocketmq.v2 import definition_pb2 as v2
from gateway.rocketmq.v2.service_pb2 import SendMessageRequest
from tests.gateway.scene import NOW_MS

MOST = 4 << 20
NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\0�"), min_size=1, max_size=40).filter(
    lambda name: name not in {"tags", "keys"} and not name.startswith(("cb-", "checkback-", "rmq-"))
)
WORDS = st.text(st.characters(codec="ascii", min_codepoint=33, exclude_characters="|"), min_size=1, max_size=40)


def message(body: bytes = b"body", namespace: str = "", **system: object) -> v2.Message:
    return v2.Message(
        topic=v2.Resource(resource_namespace=namespace, name="orders"),
        body=body,
        system_properties=v2.SystemProperties(**system),  # type: ignore[arg-type]  # each test says which
    )


def reason(sent: v2.Message, most: int = MOST) -> RefusalReason:
    with pytest.raises(GatewayError) as refused:
        incoming(sent, "client", most)
    return refused.value.refusal


@given(
    st.binary(max_size=200),
    st.dictionaries(NAMES, st.text(max_size=40), max_size=5),
    st.lists(WORDS, max_size=3),
    st.sampled_from(["", "shop"]),
    st.one_of(st.none(), WORDS),
)
def test_what_a_client_is_asked_about_is_what_it_sent(
    body: bytes, properties: dict[str, str], keys: list[str], namespace: str, tag: str | None
) -> None:
    sent = message(body, namespace, message_id="M1", born_host="here", keys=keys, message_type=v2.TRANSACTION)
    sent.user_properties.update(properties)
    sent.system_properties.born_timestamp.FromMilliseconds(NOW_MS)
    if tag is not None:
        sent.system_properties.tag = tag
    read = incoming(sent, "client", MOST).message
    check = CheckRequest("id", "g", read.topic, read.key, read.value, read.headers, HalfPosition(0, 0), 1, 15, NOW_MS)
    asked = orphaned(check, "ticket", lower_case=False)
    back = asked.message
    assert (asked.transaction_id, back.topic, back.body) == ("ticket", sent.topic, sent.body)
    assert dict(back.user_properties) == properties
    for name in ("message_id", "born_host", "tag", "keys", "born_timestamp", "message_type"):
        assert getattr(back.system_properties, name) == getattr(sent.system_properties, name), name
    assert back.system_properties.HasField("tag") == (tag is not None)


def test_a_digest_is_spelled_as_each_client_reads_it() -> None:
    check = CheckRequest("id", "g", "orders", None, b"body", [], HalfPosition(0, 0), 1, 15, NOW_MS)
    upper, lower = (
        orphaned(check, "t", lower_case=lower).message.system_properties.body_digest for lower in (False, True)
    )
    assert (upper.type, upper.checksum, lower.checksum) == (
        v2.MD5,
        "841A2D689AD86BD1611447453C22C6FC",
        upper.checksum.lower(),
    )


def test_a_client_is_asked_without_a_body_that_its_stream_would_break_at() -> None:
    sent = bytes(GRPC_BYTES - 100)
    check = CheckRequest("id", "g", "orders", None, sent, [("a", b"b")], HalfPosition(0, 0), 1, 15, NOW_MS)
    whole, without = orphaned(check, "t", any_size=True).message, orphaned(check, "t").message
    assert (whole.body, dict(whole.user_properties)) == (sent, {"a": "b"})
    assert (without.body, dict(without.user_properties)) == (b"", {"a": "b", LEFT_OUT_PROPERTY: str(len(sent))})
    assert without.system_properties.body_digest.checksum == "D41D8CD98F00B204E9800998ECF8427E"
    smaller = bytes(GRPC_BYTES - 1_000)
    check = CheckRequest("id", "g", "orders", None, smaller, [], HalfPosition(0, 0), 1, 15, NOW_MS)
    assert orphaned(check, "t").message.body == smaller


def test_the_message_group_is_the_key_and_without_one_the_first_of_its_keys() -> None:
    assert incoming(message(message_group="g", keys=["k"], message_type=v2.FIFO), "c", MOST).message.key == b"g"
    assert incoming(message(keys=["k", "l"]), "c", MOST).message.key == b"k"
    assert incoming(message(), "c", MOST).message.key is None


def test_a_namespace_is_part_of_the_topic() -> None:
    assert topic_of(v2.Resource(name="orders")) == "orders"
    assert topic_of(v2.Resource(resource_namespace="shop", name="orders")) == "shop.orders"


def test_times_are_options() -> None:
    recovery = message(message_type=v2.TRANSACTION, orphaned_transaction_recovery_duration=Duration(seconds=20))
    assert incoming(recovery, "c", MOST).options == TransactionOptions(check_immunity_ms=20_000)
    at = Timestamp()
    at.FromMilliseconds(NOW_MS)
    later = incoming(message(message_type=v2.DELAY, delivery_timestamp=at), "c", MOST)
    assert later.options == TransactionOptions(deliver_at_ms=NOW_MS)


def test_without_a_type_its_properties_say_which_it_is() -> None:
    at = Timestamp(seconds=1)
    kinds = [
        incoming(one, "c", MOST).kind for one in (message(), message(message_group="g"), message(delivery_timestamp=at))
    ]
    assert kinds == [v2.NORMAL, v2.FIFO, v2.DELAY]


def test_a_body_that_a_client_has_packed_is_unpacked_once() -> None:
    packed = message(gzip.compress(b"x" * 1_000), body_encoding=v2.GZIP)
    assert incoming(packed, "c", 1_000).message.value == b"x" * 1_000
    assert reason(packed, 999) is RefusalReason.TOO_LARGE
    assert reason(message(b"no gzip", body_encoding=v2.GZIP)) is RefusalReason.REQUEST
    assert reason(message(gzip.compress(b"x" * 1_000)[:-9], body_encoding=v2.GZIP)) is RefusalReason.REQUEST


@pytest.mark.parametrize(
    ("sent", "why"),
    [
        (message(b"x" * 11), RefusalReason.TOO_LARGE),
        (message(tag=" "), RefusalReason.TAG),
        (message(tag="a|b"), RefusalReason.TAG),
        (message(keys=[""]), RefusalReason.KEY),
        (message(keys=["x" * 256]), RefusalReason.KEY),
        (message(message_group=" ", message_type=v2.FIFO), RefusalReason.MESSAGE_GROUP),
        (message(message_type=v2.FIFO), RefusalReason.TYPE),
        (message(message_type=v2.TRANSACTION, message_group="g"), RefusalReason.TYPE),
        (message(message_type=v2.NORMAL, delivery_timestamp=Timestamp(seconds=1)), RefusalReason.TYPE),
        (message(message_type=v2.DELAY, delivery_timestamp=Timestamp(seconds=-1)), RefusalReason.DELIVERY_TIME),
        (message(message_type=v2.DELAY, delivery_timestamp=Timestamp(seconds=2**62)), RefusalReason.DELIVERY_TIME),
        (message(born_timestamp=Timestamp(seconds=2**62)), RefusalReason.REQUEST),
        (message(message_type=v2.PRIORITY), RefusalReason.NOT_THERE),
        (message(message_type=v2.LITE), RefusalReason.NOT_THERE),
        (message(message_type=99), RefusalReason.NOT_THERE),
        (message(namespace="no/name"), RefusalReason.TOPIC),
    ],
)
def test_what_cannot_be_mapped_is_refused_as_rocketmq_refuses_it(sent: v2.Message, why: RefusalReason) -> None:
    assert reason(sent, 10) is why


@pytest.mark.parametrize("name", ["", "cb-id", "checkback-x", "rmq-message-id", "tags", "keys"])
def test_no_property_becomes_a_header_that_means_something_else(name: str) -> None:
    sent = message()
    sent.user_properties[name] = "x"
    assert reason(sent) is RefusalReason.HEADER


def test_more_properties_than_rocketmq_takes_are_refused() -> None:
    many, large = message(), message()
    many.user_properties.update({str(number): "" for number in range(129)})
    large.user_properties["x"] = "y" * 16_384
    assert reason(many) is reason(large) is RefusalReason.HEADERS_TOO_LARGE


def test_a_time_that_no_client_can_be_told_is_the_last_that_it_can() -> None:
    headers = [("rmq-born-ms", b"9" * 15)]
    check = CheckRequest("id", "g", ".x", None, b"", headers, HalfPosition(0, 0), 1, 15, NOW_MS)
    asked = orphaned(check, "t").message
    assert asked.system_properties.born_timestamp.ToDatetime().year == 9999
    assert asked.topic.name == ".x"


def test_a_body_that_is_not_there_is_said_not_to_be() -> None:
    check = CheckRequest("id", "g", "x", None, None, [], HalfPosition(0, 0), 1, 15, NOW_MS, left_out=200_000)
    assert orphaned(check, "t", any_size=True).message.user_properties["checkback-left-out"] == "200000"


def test_what_a_request_may_have_is_counted_and_taken() -> None:
    several = message(b"\x0a\x00" * 100_000, message_id="M1", keys=["k"] * 100, queue_id=-1, born_host="\n\n")
    several.user_properties.update({f"{number}": "\n\x1a" for number in range(128)})
    refuse_many_fields(SendMessageRequest(messages=[several] * MOST_MESSAGES).SerializeToString())


@pytest.mark.parametrize(
    ("raw", "refusal"),
    [
        (b"\x0a\x00" * 65, RefusalReason.REQUEST),
        (b"\x8a\x00\x80\x00" * 65, RefusalReason.REQUEST),
        (b"\x0a\x02\x1a\x00" * 1_000_000, RefusalReason.REQUEST),
        (b"\xa3\x06\xa4\x06\xa0\x06\xff\x01\xa1\x0612345678\xa5\x061234" * 10_000, RefusalReason.HEADERS_TOO_LARGE),
    ],
    ids=["empty", "long tags", "system properties", "unknown"],
)
def test_very_many_messages_and_fields_are_refused(raw: bytes, refusal: RefusalReason) -> None:
    SendMessageRequest.FromString(raw)
    with pytest.raises(GatewayError) as refused:
        refuse_many_fields(raw)
    assert refused.value.refusal is refusal


@pytest.mark.parametrize("system", [{"keys": ["k"] * 20_000}, {}])
def test_very_many_keys_or_properties_are_refused(system: dict[str, object]) -> None:
    many = message(**system)  # type: ignore[arg-type]  # the names of its fields
    many.user_properties.update({str(number): "" for number in range(0 if system else 20_000)})
    with pytest.raises(GatewayError) as refused:
        refuse_many_fields(SendMessageRequest(messages=[many]).SerializeToString())
    assert refused.value.refusal is RefusalReason.HEADERS_TOO_LARGE


@given(st.binary(max_size=100))
def test_bytes_that_are_no_request_are_left_to_protobuf(raw: bytes) -> None:
    refuse_many_fields(raw)


@pytest.mark.parametrize("raw", [b"\x80" * 5_000_000, b"\x0a", b"\x0a\xff\xff\xff\x0f\x1a\xff\xff\xff\x0f\x0a"])
def test_lengths_that_are_none_are_left_to_protobuf(raw: bytes) -> None:
    refuse_many_fields(raw)
