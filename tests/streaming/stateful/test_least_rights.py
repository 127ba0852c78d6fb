"""What the worst record of who may write to the half and the op topic comes to: through decode, state and sink."""

import numpy as np
import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession

from access.policy import policy_of
from checkback.wire.message_json import pack
from checkback.wire.protocol import Message
from state import Policy, Segment, evaluate
from streaming.access.told import NotAllowed
from streaming.batch.headers import Headers
from streaming.batch.record import Record
from streaming.kafka_sink.holding import Holding
from streaming.kafka_sink.records import RecordBuilder
from streaming.stateful.admission import Admission
from streaming.stateful.arrivals import arrivals_of
from tests.streaming.kafka_sink.test_lane_records import Anything
from tests.streaming.outcomes import SCHEMA as OUTCOMES
from tests.streaming.outcomes import outcome, rows
from tests.streaming.stateful.decoding import SIZE, TOPICS, WHEN, decoding, in_order

NOW_MS = int(WHEN.timestamp() * 1000)
RULES = Policy(segment_size=SIZE)
Written = tuple[str, int, Headers, bytes | None]
"""Topic, offset, headers, value."""
HELD = ("cb-held", b"1 0 1:64")


def half(offset: int, topic: bytes, *more: tuple[str, bytes | None], value: bytes | None = b"v") -> Written:
    """One that is to be delivered at once: there is nobody to be asked."""
    ours: Headers = [("cb-id", b"tx-%d" % offset), ("cb-group", b"shop"), ("cb-topic", topic)]
    return TOPICS.half, offset, [*ours, ("cb-action", b"commit"), *more], value


def op(offset: int, *changed: tuple[str, bytes | None]) -> Written:
    """A commit of the half message 1:70, of group *shop*."""
    ours = {"cb-id": b"tx-70", "cb-group": b"shop", "cb-half": b"1:70", "cb-action": b"commit"}
    return TOPICS.op, offset, list({**ours, "cb-source": b"producer", **dict(changed)}.items()), b"forged"


def open_one(value: bytes) -> Written:
    """The half message 1:70, undecided."""
    topic, offset, headers, _ = half(70, b"orders")
    return topic, offset, [pair for pair in headers if pair[0] != "cb-action"], value


def come_to(spark: SparkSession, *records: Written, policy: str = "") -> list[Record]:
    """What the job writes of these, all on partition 1, each segment by itself."""
    given = [(topic, 1, offset, b"key", value, headers, WHEN) for topic, offset, headers, value in records]
    table = in_order(decoding(spark, given))
    allowed = NotAllowed(policy_of(policy), TOPICS) if policy else None
    admission = Admission(NOW_MS, 10**12, policy=allowed)
    builder = RecordBuilder(TOPICS, Anything(), Holding(TOPICS.half, NOW_MS))
    written: list[Record] = []
    for partition, segment in {(row["half_partition"], row["segment"]) for row in table.to_pylist()}:
        same = (pc.field("half_partition") == partition) & (pc.field("segment") == segment)
        arrivals = arrivals_of(table.filter(same).to_batches(), TOPICS, admission)
        made = evaluate(Segment.new(segment, RULES), arrivals, NOW_MS, RULES)
        columns = {name: np.asarray(made.outcomes[name]).tolist() for name in OUTCOMES.names if name in made.outcomes}
        said = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
        found = [outcome(**{**row, "half_partition": partition}) for row in said]
        written += [record for batch in rows(*found) for record in builder.build(batch)] if found else []
    return written


OURS = [*TOPICS.all(), "__consumer_offsets", "__transaction_state", "__anything"]


@pytest.mark.parametrize("spelled", [(), (HELD,), (("cb-partition", b"0"),), (("cb-deliver-at", b"1"),)], ids=str)
def test_nothing_is_delivered_to_a_topic_of_checkbacks_or_kafkas_own(
    spark: SparkSession, spelled: tuple[tuple[str, bytes], ...]
) -> None:
    """Alone, among several, and spelled as the job's own."""
    alone = [half(64 + at, topic.encode(), *spelled) for at, topic in enumerate(OURS)]
    packed = [pack([Message("orders", b"1"), Message(topic, b"2")]) for topic in OURS]
    count = ("cb-messages", b"2")
    several = [half(90 + at, b"orders", count, *spelled, value=value) for at, value in enumerate(packed)]
    found = come_to(spark, *alone, *several)
    assert [record.topic for record in found] == [TOPICS.rejected] * 2 * len(OURS)


def test_with_a_policy_the_worst_half_message_goes_to_a_topic_of_the_group_that_it_names(spark: SparkSession) -> None:
    policy = '[accounts.shop]\ngroups = ["shop"]\ntopics = ["orders"]\n'
    topics = [b"orders", b"payroll", b"cb.retry.points", b"cb.dlq.points", b"orders.", b"ORDERS"]
    found = come_to(spark, *(half(64 + at, topic) for at, topic in enumerate(topics)), policy=policy)
    assert sorted(record.topic for record in found) == [TOPICS.rejected] * 5 + ["orders"]


def test_the_worst_op_decides_and_delivers_only_what_the_half_message_holds(spark: SparkSession) -> None:
    """Of a group without keys: with them ``test_what_is_not_signed_by_who_may_is_refused_whole``."""
    (delivered,) = come_to(spark, open_one(b"the half message's"), op(0))
    assert (delivered.topic, delivered.value) == ("orders", b"the half message's")
    assert not [one for one in delivered.headers if b"forged" in (one[1] or b"")]


@pytest.mark.parametrize(
    "changed",
    [
        *(("cb-id", b"another"), ("cb-group", b"another"), ("cb-half", b"1:71"), ("cb-half", b"0:70")),
        *(("cb-source", b"job"), ("cb-action", b"park")),
    ],
    ids=str,
)
def test_who_does_not_know_a_half_message_decides_nothing_of_it(
    spark: SparkSession, changed: tuple[str, bytes]
) -> None:
    assert {record.topic for record in come_to(spark, open_one(b"v"), op(0, changed))} <= {TOPICS.rejected}
