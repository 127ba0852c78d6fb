"""Records as nobody should write them, and anybody can, for whatever topic Checkback reads.

Those that a topic's reader gets to see as records of its own have what it looks at changed, one thing at a time.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from tests.by_hand import NOT_UTF_8, Record, write_by_hand
from tests.fuzz.pieces import NOT_NUMBERS, NOT_TEXT

Headers = Sequence[tuple[bytes, bytes | None]]

UNREADABLE: dict[str, Record] = {
    "not UTF-8": (b"key", b"not UTF-8", [(NOT_UTF_8, b"1")]),
    "several": (b"", b"several", [(b"cb-id", b"1"), (NOT_UTF_8, None), (b"", b"2"), (b"\xed\xa0\x80", b"a surrogate")]),
    "of ours": (None, b"of ours", [(b"cb-" + NOT_UTF_8, b"1"), (b"checkback-" + NOT_UTF_8, b"2")]),
    "no value": (b"no value", None, [(b"a", None), (NOT_UTF_8, None)]),
}
"""Of which a client gives no headers, or not all: a name is not UTF-8."""

READABLE: dict[str, Record] = {
    "no name": (b"key", b"no name", [(b"", b"1"), (b"", None)]),
    "zero bytes": (b"\0", b"zero bytes", [(b"\0", b"\0"), (b"cb-id\0", b"1")]),
    "a long name": (b"key", b"a long name", [(b"n" * 60_000, b"1")]),
    "nothing at all": (None, None, []),
    "no header values": (b"", b"no header values", [(b"cb-id", None), (b"tags", None), (b"checkback-tries", None)]),
    "200,000 headers": (b"key", b"200,000 headers", [(b"a", b"")] * 200_000),
    "an odd id": (b"key", b"an odd id", [(b"cb-id", b"\xff\n\x00")]),
    "numbers": (
        b"key",
        b"numbers",
        [
            (b"checkback-origin", b"orders:-1:99999999999999999999"),
            (b"checkback-tries", b"9" * 5_000),
            (b"checkback-origin-time", b"-1"),
            (b"checkback-without-value", b"-1,x"),
        ],
    ),
}
"""Of which a client gives all, or cuts them in silence."""

GOOD: Record = (b"key", b"good", [(b"cb-id", b"1")])

ANYTHING = (*UNREADABLE.values(), *READABLE.values())

_SURROGATE = "\ud800"
_CONTENTS = (None, b"", b"\0", b"\x1b[2J\n", b"x" * 9_000, b"0:1 ", b"7", *NOT_TEXT[:3], *NOT_NUMBERS[1:])
_DEEP = 100_000
_JSON: tuple[Any, ...] = (
    *(None, True, [], {}, [[]], "", "\0\x1b[2J\n", _SURROGATE, "x" * 9_000, "7"),
    *(-1, 1.5, 1e300, 2**63, 10**400, float("nan"), float("inf"), float("-inf")),
)
"""In the place of what JSON should have."""
_NO_JSON = (
    *(b"", b"\0", b"null", b"1", b"[]", b'""', b"{", b"\xff\xfe{}", b"\xef\xbb\xbf{}", b"9" * 5_000, b"NaN", b"1e999"),
    *(b"[" * _DEEP, b'{"id":' * _DEEP, b"[" * _DEEP + b"]" * _DEEP),
)


def odd_headers(headers: Headers) -> Iterator[Headers]:
    """Lawful headers with one thing wrong in each."""
    for number, (name, content) in enumerate(headers):
        before, behind = headers[:number], headers[number + 1 :]
        yield [*before, *behind]
        for odd in _CONTENTS:
            yield [*before, (name, odd), *behind]
        yield [*headers, (name, content)]
        yield [*headers, (name, None)]
        yield [(name, NOT_UTF_8), *headers]
    yield [*headers, (NOT_UTF_8, b"1")]
    yield [*headers, (b"n" * 60_000, b"1")]


def odd_json(said: dict[str, Any]) -> Iterator[bytes]:
    """A lawful JSON object with one thing wrong in each, and what is no JSON."""
    for name in said:
        yield json.dumps({other: content for other, content in said.items() if other != name}).encode()
        for odd in _JSON:
            yield json.dumps({**said, name: odd}).encode()
        yield json.dumps(said)[:-1].encode() + b", " + json.dumps({name: None})[1:].encode()  # it is there twice
    whole = json.dumps(said)
    yield whole.encode("utf-16")
    yield whole[:-3].encode()
    yield json.dumps([said]).encode()
    yield from _NO_JSON


def in_batches(records: Iterable[Record], most_bytes: int = 900_000) -> Iterator[list[Record]]:
    """As many as a topic takes at once, and always one."""
    batch: list[Record] = []
    size = 0
    for record in records:
        key, value, headers = record
        own = 20 + len(key or b"") + len(value or b"") + sum(6 + len(name) + len(one or b"") for name, one in headers)
        if batch and size + own > most_bytes:
            yield batch
            batch, size = [], 0
        batch.append(record)
        size += own
    if batch:
        yield batch


def write_all(
    bootstrap_servers: str, topic: str, records: Iterable[Record], *, good: Record, compacted: bool = False
) -> int:
    """Write records to partition 0, a good one before and behind them in each batch; how many these are in all.

    ``compacted``: the topic takes no record without a key.
    """
    host, _, port = bootstrap_servers.rpartition(":")
    written = 0
    for batch in in_batches(records):
        keyed = [(b"none" if compacted and key is None else key, value, headers) for key, value, headers in batch]
        write_by_hand((host, int(port)), topic, 0, good, *keyed, good)
        written += len(keyed) + 2
    return written


WILD_NOTES = (
    *("[" * 4_000, "[[" * 1_000, '{"a":' * 700, "null", "7", "\U0001f600", "9" * 4_000, "x" * 4_090),
    *('[["a","b",Infinity]]', '[["a","b",1e999]]', '[["a","b",-5]]', f'[["a","b",{2**63}]]', '[["a","b","c"]]'),
    '[["\\ud800","b",0]]',
)
"""Beside offsets, where whoever may commit for a group writes text of up to 4,096 bytes."""
