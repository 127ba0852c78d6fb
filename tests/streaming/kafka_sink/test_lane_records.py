"""What the sink writes of half messages that name a lane, and of ops that say what it has done. No Kafka."""

from typing import Any

import pytest

from checkback.wire.checks import CheckRequest
from checkback.wire.protocol import Topics
from state import Arrivals, OutcomeKind, Policy, Segment, evaluate
from streaming.batch.record import Record
from streaming.brokers.directory import Known, Standing
from streaming.kafka_sink.holding import Holding
from streaming.kafka_sink.records import RecordBuilder
from tests.state.records import Half, Op, arrivals
from tests.streaming.outcomes import SCHEMA, outcome, rows

LANE = "0f" * 16
POLICY = Policy(segment_size=64)


class Anything(Known):
    """Each topic has one partition."""

    def __init__(self) -> None:
        self.standings = {}

    def learn(self, topics: Any) -> None:
        self.standings.update(dict.fromkeys(topics, Standing(1)))


def written(*outcomes: dict[str, Any]) -> list[Record]:
    builder = RecordBuilder(Topics(), Anything(), Holding("cb.half", 0))
    return [record for batch in rows(*outcomes) for record in builder.build(batch)]


def said(*steps: Arrivals, half_partition: int = 3) -> list[dict[str, Any]]:
    """The outcomes of the last step."""
    segment = Segment.new(0, POLICY)
    for now_ms, came in enumerate(steps):
        made = evaluate(segment, came, now_ms, POLICY)
        assert made.segment is not None
        segment = made.segment
    columns = {name: made.outcomes[name].tolist() for name in SCHEMA.names if name in made.outcomes}
    found = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    return [outcome(**{**row, "half_partition": half_partition}) for row in found]


def test_a_check_names_the_lane() -> None:
    came = arrivals([Half(lane=0, lane_name=LANE, immunity_ms=0), Half(offset=1, immunity_ms=0)])
    records = [record for record in written(*said(came)) if record.topic == "cb.check"]
    assert [CheckRequest.from_record(one.value, one.headers).lane for one in records] == [LANE, ""]  # type: ignore[arg-type]  # of ours none is null


@pytest.mark.parametrize(
    ("op", "following"),
    [
        (Op("delivered"), [("cb-delivered", b"1")]),
        (Op(settled=1, transaction_id="another"), [("cb-settled", b"1")]),
        (Op(transaction_id="another"), []),
    ],
)
def test_an_op_is_rejected_with_what_it_says_of_a_lane(op: Op, following: list[tuple[str, bytes]]) -> None:
    (record,) = written(*said(arrivals([Half()], [op])))
    assert record.headers[2:] == [
        *(("cb-id", op.transaction_id.encode()), ("cb-group", b"orders"), ("cb-half", b"3:0")),
        *(("cb-action", b"commit"), ("cb-source", b"producer"), *following),
    ]


def test_of_a_claim_is_written_what_is_known() -> None:
    (record,) = written(*said(arrivals((), [Op("delivered", op_offset=7)]), arrivals([Half()])))
    assert (record.topic, record.key, record.value) == ("cb.rejected", None, None)
    assert record.headers[1:] == [
        *(("cb-from", b"cb.op:3:7"), ("cb-half", b"3:0"), ("cb-action", b"commit"), ("cb-delivered", b"1"))
    ]


def test_what_lanes_have_delivered_is_not_written() -> None:
    assert not written(*(outcome("orders", kind=kind) for kind in (OutcomeKind.BY_LANE, OutcomeKind.BY_LANE_BUNDLE)))
