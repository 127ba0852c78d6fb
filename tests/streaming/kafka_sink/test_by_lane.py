"""A lane writes what the job's sink would write, on the same partition."""

from contextlib import closing
from typing import Any

import orjson

from checkback import Message
from checkback.producing.direct.entries import lane_half
from checkback.wire.lanes import new_lane
from checkback.wire.ledger import Ledger
from checkback.wire.message_json import pack, to_base64
from state import BUNDLE, OutcomeKind
from streaming.batch.batch import Batch
from streaming.brokers.client import SinkSettings
from streaming.kafka_sink.partition_writer import write_partition
from tests.kafka.lanes import opened
from tests.place import Place
from tests.streaming.outcomes import outcome, rows

HEADERS = [("trace", b"\x00\xff"), ("again", b"1"), ("again", b""), ("é", b"2")]


def test_messages_are_the_same_whoever_delivers_them(place: Place) -> None:
    topic = place.real_topic
    alone = [
        Message(topic, b"v", b"key-%d" % number, HEADERS if number % 2 else (), 1 if number % 5 == 0 else None)
        for number in range(20)
    ]
    alone += [Message(topic, None, b"tombstone"), Message(topic, b"", b""), Message(topic, b"there", None, (), 3)]
    several = [
        Message(topic, b"one", b"k", HEADERS),
        Message(topic, None, b"two"),
        Message(topic, b"three", None, (), 2),
    ]
    packed = orjson.dumps([{"key": name, "value": to_base64(value)} for name, value in HEADERS]).decode()
    by_job = []
    for number, one in enumerate(alone):
        content = {"key": one.key, "value": one.value, "headers": packed if one.headers else None}
        partition = -1 if one.partition is None else one.partition
        by_job.append(outcome(topic, transaction_id=f"t{number}", partition=partition, **content))
    bundle = {"kind": OutcomeKind.DELIVER_BUNDLE, "partition": BUNDLE, "value": pack(several)}
    by_job.append(outcome(topic, transaction_id="several", **bundle))
    settings = SinkSettings(place.bootstrap_servers, place.topics, 60_000)
    batch = Batch("query", 0, "hash", every_partition_writes=False, time_ms=1_000_000)
    write_partition(settings, batch, 0, rows(*by_job))
    wanted = records(place)
    assert len(wanted) == len(alone) + len(several)
    lane = new_lane()
    halves = [lane_half(f"t{number}", lane, [one], numbered=False) for number, one in enumerate(alone)]
    halves.append(lane_half("several", lane, several, numbered=True))
    with closing(opened(place, lane)) as writer:
        writer.deliver([record for half in halves for record in half.records], Ledger())
    assert sorted(map(repr, records(place))) == sorted(map(repr, 2 * wanted))


def records(place: Place) -> list[Any]:
    return [(one.partition, one.key, one.value, list(one.headers)) for one in place.read(place.real_topic)]
