"""Decoding of large records: heads of what is too large, and what is set aside of what is not."""

import pytest
from pyspark.sql import SparkSession

from streaming.batch.headers import unpack_headers
from streaming.stateful.decode import NO_SEGMENT
from tests.streaming.stateful.decoding import BROKEN, HALF, TOPICS, WHEN, Headers, decoded, decoded_rows, half, op

MIB = 1 << 20
TOO_LARGE = (
    "its value is larger than 16 MiB",
    "its key is larger than 1 MiB",
    "it has more than 1,000 headers",
    "its headers are larger than 1 MiB together",
)


def test_of_what_is_too_large_the_head_goes_on_with_a_note_of_its_size(spark: SparkSession) -> None:
    value, key, count, large = TOO_LARGE
    many: list[tuple[str, bytes]] = [("a", b"")] * 998
    (row,) = decoded(spark, half(), value=bytes(16 * MIB + 1))
    assert (row.reason, row.value, row.key) == (value, bytes(65_536), b"key")
    # cb-id tx-1, cb-group shop, cb-topic orders
    assert unpack_headers(row.headers) == [("cb-cut", b"3 16777217 35"), *(half()[1] or [])]
    (row,) = decoded(spark, op(half=b"?"), key=bytes(MIB + 1))
    assert (row.reason, row.key) == (key, bytes(1024))
    rows = decoded(spark, half(*many), ("half", [*many, *many]), half(("a", b"x" * MIB)), op(id=b"x" * MIB))
    assert [row.reason for row in rows] == [count, count, large, large]
    assert [len(unpack_headers(row.headers)) for row in rows] == [17, 17, 5, 6]
    assert all(len(row.headers) < 3_000 for row in rows)
    assert {(row.kind, row.segment) for row in rows} == {(BROKEN, NO_SEGMENT)}


def test_what_is_as_large_as_may_be_is_taken(spark: SparkSession) -> None:
    (row,) = decoded(spark, half(("a", b"x" * (MIB - 36))), key=bytes(MIB), value=bytes(16 * MIB))
    assert (row.reason, row.kind, row.value, row.key) == (None, HALF, None, None)
    assert row.left_out == 18 * MIB
    held = [("cb-action", b"commit"), ("cb-held", b"1 2 3:4"), ("a", b"x" * (MIB + 1)), *([("b", b"")] * 1_000)]
    (row,) = decoded(spark, half(*held))
    assert row.reason is None


LEFT = [
    *((16_000, 100, {"key", "value", "headers"}), (16_384, 100, {"key", "headers"})),
    *((16_384, 5_000, {"key"}), (10, 20_000, {"key"}), (20_000, 20_000, {"key"})),
]
"""Bytes of the value and of a header, and what goes on."""


def test_large_content_of_a_half_message_goes_no_further(spark: SparkSession) -> None:
    ours = half()[1] or []
    contents = [(b"v" * value, [*ours, ("note", b"n" * note)]) for value, note, _ in LEFT]
    contents.append((b"v", ours))
    given = enumerate(contents, start=100)
    *rows, small = decoded_rows(spark, [(TOPICS.half, 1, at, b"key", *content, WHEN) for at, content in given])
    assert (small.left_out, small.value) == (-1, b"v")
    for row, (value, headers), (_, _, left) in zip(rows, contents[:-1], LEFT, strict=True):
        assert (row.transaction_id, row.kind) == ("tx-1", HALF)
        assert {name for name in ("key", "value", "headers") if getattr(row, name) is not None} == left
        size = len(value) + sum(len(name) + len(content or b"") for name, content in headers)
        assert row.left_out == (-1 if "value" in left else len(value) if "headers" in left else size)


LARGE: list[tuple[str, Headers]] = [
    ("", []),
    ("", [("a", b"1"), ("a", b"2"), ("cb-partition", b"3"), ("cb-new", b"?" * 20_000)]),
    ("a cb- header is there more than once", [("cb-" + "n" * 70, b""), ("cb-" + "n" * 70, b"")]),
    ("", [("cb-" + "n" * 70, b""), ("cb-" + "n" * 70 + "m", b"")]),
    ("a cb- header is there more than once", [("cb-id", b"tx-1")]),
    ("cb-partition is not a number", [("cb-partition", b"1" * 20_000)]),
    ("cb-version is not a number", [("cb-version", b"\xff")]),
    ("cb-held is not what the job writes there", [("cb-held", b"1 2 3:4")]),
]


@pytest.mark.parametrize("key", [10, 20_000])
def test_of_large_content_headers_are_judged_all_the_same(spark: SparkSession, key: int) -> None:
    content: Headers = [("note", b"n" * 20_000)]
    rows = decoded(spark, *(half(*content, *more) for _, more in LARGE), key=b"k" * key)
    assert [row.reason or "" for row in rows] == [reason for reason, _ in LARGE]
    assert {(row.headers, row.value) for row in rows} == {(None, None)}
    assert all(row.key == (None if key == 20_000 else b"k" * key) for row in rows)
    for row, (_, more) in zip(rows, LARGE, strict=True):
        headers = half(*content, *more)[1] or []
        size = len(b"value") + sum(len(name.encode()) + len(value or b"") for name, value in headers)
        assert row.left_out == size + (key if key == 20_000 else 0)


NOT_READ_AGAIN: list[tuple[str, str]] = [
    ("a header's name holds a zero byte", "a\0"),
    ("a header's name is not UTF-8, or has U+FFFD in it", "\ufffd"),
    ("a header's name is not UTF-8, or has U+FFFD in it", "cb-" + "n" * 70 + "\ufffd"),
]


@pytest.mark.parametrize(("value", "note", "key"), [(1, 1, 1), (20_000, 1, 1), (1, 20_000, 1), (1, 1, 20_000)])
def test_what_could_not_be_read_again_is_rejected_with_all_its_content(
    spark: SparkSession, value: int, note: int, key: int
) -> None:
    records = [half(("note", b"n" * note), (name, b"1")) for _, name in NOT_READ_AGAIN]
    rows = decoded(spark, *records, key=b"k" * key, value=b"v" * value)
    assert [(row.kind, row.reason) for row in rows] == [(BROKEN, reason) for reason, _ in NOT_READ_AGAIN]
    assert {(row.key, row.value, row.left_out) for row in rows} == {(b"k" * key, b"v" * value, -1)}
    assert [unpack_headers(row.headers) for row in rows] == [headers for _, headers in records]
