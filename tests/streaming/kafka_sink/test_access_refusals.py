"""What the sink counts of records that the access policy has refused. No Kafka."""

from typing import Any

from access.refusals import Refused
from checkback.wire.protocol import Topics
from state import OutcomeKind
from streaming.batch.batch import counts_to_json, summed_counts
from streaming.batch.headers import Headers, packed_headers
from streaming.kafka_sink.holding import Holding
from streaming.kafka_sink.records import RecordBuilder
from tests.streaming.kafka_sink.test_lane_records import Anything
from tests.streaming.outcomes import outcome, rows

WHY = "group shop may not send to payroll: no account names that group"
SHOP: Headers = [("cb-id", b"tx"), ("cb-group", b"shop"), ("cb-topic", b"payroll")]


def counted(*outcomes: dict[str, Any]) -> dict[Refused, int]:
    builder = RecordBuilder(Topics(), Anything(), Holding("cb.half", 0))
    assert [record.topic for batch in rows(*outcomes) for record in builder.build(batch)]
    return dict(summed_counts(Refused, [counts_to_json(builder.refused.counts)] * 2))


def rejected(reason: str, headers: Headers, topic: str = "cb.half") -> dict[str, Any]:
    packed = packed_headers(headers)
    return outcome(topic, kind=OutcomeKind.REJECT_RECORD, group="", transaction_id="", headers=packed, reason=reason)


def test_by_group_and_topic_and_nothing_else() -> None:
    found = counted(rejected(WHY, SHOP), rejected(WHY, SHOP), rejected("its cb-id is missing", SHOP))
    assert found == {Refused("shop", "payroll", WHY): 4}


def test_what_a_consumer_sent_back_and_may_not_counts_too() -> None:
    sent_back: Headers = [*SHOP[:2], ("cb-topic", b"cb.retry.points"), ("cb-retry-of", b"orders:0:7")]
    why = "group shop may not send to cb.retry.points, which is another group's"
    assert counted(rejected(why, sent_back)) == {Refused("shop", "cb.retry.points", why): 2}


def test_names_that_somebody_makes_up_are_bounded() -> None:
    found = counted(*(rejected(WHY, [("cb-group", b"g%d" % number)]) for number in range(1_500)))
    assert len(found) == 1_001
    assert sum(found.values()) == 3_000
    assert found[Refused("", "", "more groups and topics than are told apart")] == 1_000
