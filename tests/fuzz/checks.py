"""Fuzzed records for the topics that the check service reads. The same seed gives the same records."""

import json
from random import Random
from typing import Any

from checkback import CheckRequest, HalfPosition
from tests.fuzz.pieces import NOT_NUMBERS, NOT_TEXT, Headers, changed, noise, some, without

GROUP = "orders"
URLS = (
    *("", "x", "ftp://127.0.0.1/", "http://", "http://[::1", "http://127.0.0.1:99999/", "http://127.0.0.1:0/"),
    *("http://169.254.169.254/latest/", "http://0.0.0.0/", "http://\ud800/", "http://a b/", "//" * 999, "http://\0/"),
)


def good_check(number: int, partition: int) -> CheckRequest:
    """A check that must be answered."""
    numbers: dict[str, Any] = {"attempt": 1, "check_max": 15, "ingested_ms": 1_000}
    half = HalfPosition(partition, number)
    return CheckRequest(f"good-{number}", GROUP, "paid", b"k", b"v", [("trace", b"\x00")], half, **numbers)


def a_check(random: Random, number: int) -> tuple[bytes | None, bytes | None, Headers]:
    """Key, value and headers of a record of ``cb.check`` with something wrong in it."""
    key, value, written = good_check(number, random.randrange(2)).to_record()
    headers: Headers = changed(list(written), "cb-id", b"fuzzed-%d" % number)
    name = random.choice(("cb-id", "cb-group", "cb-topic", "cb-half", "cb-attempt", "cb-check-max", "cb-ingested-ms"))
    wrong: tuple[Headers, ...] = (
        [],
        some(random),
        without(headers, name),
        changed(headers, name, None),
        changed(headers, name, b""),
        changed(headers, name, random.choice(NOT_TEXT)),
        changed(headers, name, random.choice(NOT_NUMBERS)),
        changed(headers, name, noise(random, 400)),
        changed(headers, "cb-half", random.choice((b"2:1", b"0:9223372036854775808", b"-1:0", b"9999999999:0", b"0:"))),
        changed(headers, "cb-group", random.choice((b"", b"g" * 256, b"nobody", "größe".encode()))),
        [*headers, (name, noise(random, 9))],
        [*headers, ("cb-messages", random.choice((b"1", None, b"\xff")))],
        [*headers, ("cb-key", None), *some(random)],
        [*reversed(headers), ("cb-later", None)],
    )
    values = (value, None, noise(random, 200), b"[" * 5_000, b'{"messages": [{"partition": 1e999, "headers": []}]}')
    return random.choice((key, None, b"")), random.choice(values), random.choice(wrong)


def an_announcement(random: Random, number: int) -> tuple[bytes | None, bytes | None]:
    """Key and value of a record of ``cb.producers`` with something wrong in it."""
    body: dict[str, Any] = {"group": GROUP, "instance": f"i{number}", "url": random.choice(URLS), "time_ms": 1}
    name = random.choice((*body, "batch", "topics"))
    odd: list[Any] = [None, [], {}, "", 0, -1, 1.5, float("inf"), 10**30, True, "\ud800", "x" * 9_999, [1], {"a": []}]
    texts = (
        json.dumps({**body, name: random.choice(odd)}).encode(),
        json.dumps({**body, name: random.choice(odd)}).encode("utf-16"),
        json.dumps({other: said for other, said in body.items() if other != name}).encode(),
        json.dumps(body).encode()[:-3],
        json.dumps([body]).encode(),
        *(noise(random, 300), b"", b"null", b"[" * 5_000, b'{"group":' * 1_000, b"9" * 5_000),
    )
    key = random.choice((None, b"", b"\xff", b"orders/x", f"orders/i{number}".encode(), noise(random, 50)))
    return key, random.choice((None, *texts))
