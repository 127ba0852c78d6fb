"""Topics of Checkback, each full of hostile records, with good ones before and behind every batch of them."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from checkback.wire.protocol import HalfPosition
from tests.by_hand import NOT_UTF_8, Record, write_by_hand
from tests.fuzz.pieces import NOT_TEXT
from tests.hostile.records import ANYTHING, Headers, odd_headers, odd_json, write_all
from tests.place import Place

GROUP = "points"
"""A consumer group, whose dead letters they are."""
HALF = HalfPosition(0, 0)
"""Where the first good half message lies."""
ELSEWHERE = b"0:900"
"""Where hostile records say that their half message lies."""
FAR_MS = 2**63 - 1

_ODD_KEYS = (None, b"", b"\0", b"x" * 9_000, b"0:-1", b"0:1\n", b"9" * 5_000, b"0:" + b"9" * 5_000, *NOT_TEXT[:3])


@dataclass(frozen=True)
class Kind:
    """What a topic's records are like."""

    good: Record
    lawful: Headers = ()
    """Headers of a lawful one that is not one of the good ones."""
    said: tuple[dict[str, Any], ...] = ()
    """Likewise, the JSON in the values of some; each under the key of the same number."""
    keys: tuple[bytes, ...] = (b"key",)
    compacted: bool = field(default=False, kw_only=True)
    apart: bool = field(default=False, kw_only=True)
    """Each is about a half message of its own: of one the last record counts."""

    def hostile(self) -> Iterator[Record]:
        """All that somebody may have written there."""
        for number, record in enumerate(self._hostile()):
            yield _moved(record, b"0:%d" % (900 + number)) if self.apart else record

    def _hostile(self) -> Iterator[Record]:
        key, value, headers = self.good
        yield from ANYTHING
        for changed in odd_headers(self.lawful):
            yield self.keys[0], value, changed
        for name, said in zip(self.keys, self.said, strict=False):
            for content in odd_json(said):
                yield name, content, self.lawful
        for odd in _ODD_KEYS:
            yield odd, value, headers if odd != key else self.lawful
            yield odd, None, self.lawful
        yield self.keys[0], bytes(800_000), self.lawful


def _moved(record: Record, place: bytes) -> Record:
    key, value, headers = record
    contents = ((name, place if content == ELSEWHERE else content) for name, content in headers)
    return key and key.replace(ELSEWHERE, place), value and value.replace(ELSEWHERE, place), list(contents)


def kinds(place: Place) -> dict[str, Kind]:
    """What there is in each topic that is read."""
    real, topics = place.real_topic.encode(), place.topics
    named = [(b"cb-group", b"shop"), (b"cb-topic", real)]
    other = [(b"cb-id", b"hostile"), *named]
    good = [(b"cb-id", b"good"), *named]
    at, elsewhere = (b"cb-half", str(HALF).encode()), (b"cb-half", ELSEWHERE)
    row: dict[str, Any] = {"transaction_id": "good", "group": "shop", "topic": place.real_topic, "half": str(HALF)}
    row |= {
        "attempt": 1,
        "check_max": 15,
        "ingested_ms": 1,
        "asked_ms": 2,
        "next_check_ms": 3,
        "last_answer": "unknown",
        "answered_ms": 4,
        "misses": 1,
        "remark": "busy",
    }
    announced = {"group": "shop", "instance": "one", "url": "http://127.0.0.1:1/", "time_ms": 1}
    order = {"id": "o", "group": GROUP, "topic": place.real_topic, "offsets": {"0": 1}}
    report = {"id": "o", "partition": 0, "before": 1, "after": 2, "consumer": "c"}
    options = [(b"cb-immunity-ms", b"1"), (b"cb-check-max", b"1"), (b"cb-deliver-at", b"1")]
    options += [(b"cb-action", b"commit"), (b"cb-version", b"1")]
    check = [(b"cb-attempt", b"1"), (b"cb-check-max", b"15"), (b"cb-ingested-ms", b"1")]
    rare = [(b"cb-key", b"k"), (b"cb-cut", b"8 9 10")]
    travels = [
        *((b"checkback-origin", real + b":0:41"), (b"checkback-origin-time", b"1"), (b"checkback-tries", b"3")),
        *((b"checkback-first-id", b"first"), (b"checkback-reason", b"why")),
    ]
    odd_travels = [(b"checkback-without-value", b"0"), (b"checkback-kept-cb-x", b"1"), (b"cb-id", b"h")]
    mark = [(b"checkback-resent", b"0:0"), (b"checkback-resent-to", real), (b"checkback-resent-by", b"ada")]
    remark = {"who": "ada", "why": "so"}
    action = [(b"cb-action", b"commit"), (b"cb-source", b"operator")]
    came_from = (b"cb-from", f"{topics.half}:{HALF}".encode())
    return {
        topics.half: Kind((b"k", b"v", good), [*other, *options], ({"messages": [{"topic": "x"}]},)),
        topics.op: Kind((b"k", b"v", [*good[:2], at, *action]), [*other[:2], elsewhere, *action], (remark,)),
        topics.check: Kind((b"good", b"v", [*good, at, *check]), [*other, elsewhere, *check, *rare]),
        topics.parked: Kind(
            (b"k", b"v", [*good, at, (b"cb-reason", b"gave up")]),
            [*other, elsewhere, (b"cb-reason", b"why"), (b"cb-ended", b"committed"), (b"cb-from", b"x:0:1")],
            apart=True,
        ),
        topics.rejected: Kind(
            (b"k", b"v", [(b"cb-reason", b"it is good"), came_from, *good]),
            [(b"cb-reason", b"why"), came_from, *other, elsewhere, (b"cb-action", b"commit")],
        ),
        topics.status: Kind(
            (str(HALF).encode(), json.dumps(row).encode(), []),
            said=({**row, "transaction_id": "hostile", "half": ELSEWHERE.decode()},),
            keys=(ELSEWHERE,),
            compacted=True,
            apart=True,
        ),
        topics.producers: Kind(
            (b"shop/good", json.dumps({**announced, "instance": "good"}).encode(), []),
            said=(announced,),
            keys=(b"shop/" + ELSEWHERE,),
            compacted=True,
            apart=True,
        ),
        topics.control: Kind(
            (b"other/good", b"{}", []),
            said=(order, report),
            keys=(f"reset/{place.real_topic}/{GROUP}".encode(), b"done/o/0"),
            compacted=True,
        ),
        topics.dead(GROUP): Kind((b"k", b"good", travels), [*travels, *odd_travels, *mark]),
        place.real_topic: Kind((b"k", b"v", [(b"cb-id", b"good")]), [(b"cb-id", b"h"), *travels, *odd_travels]),
    }


def pollute(place: Place, topic: str) -> int:
    """Write them; how many records there are then."""
    kind = kinds(place)[topic]
    return write_all(place.bootstrap_servers, topic, kind.hostile(), good=kind.good, compacted=kind.compacted)


def write_at_odd_times(place: Place, topic: str) -> int:
    """Records of a topic with its writers' time, which takes any; how many there are."""
    host, _, port = place.bootstrap_servers.rpartition(":")
    good = kinds(place)[topic].good
    times = (-1, -2, 0, -(2**61), FAR_MS)
    for time_ms in times:
        write_by_hand((host, int(port)), topic, 0, good, (b"", b"", [(NOT_UTF_8, b"")]), time_ms=time_ms)
    return 2 * len(times)
