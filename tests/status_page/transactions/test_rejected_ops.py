"""Which decisions of operators the job rejected, from a real Kafka."""

import time

from checkback.wire.protocol import Action, HalfPosition
from status_page.transactions.transaction_story import rejected_ops
from tests.job_records import JobRecords
from tests.place import Place


def test_rejected_ops_have_their_reason(place: Place) -> None:
    rejections, since_ms = rejected_ops(place.settings()), time.time_ns() // 1_000_000 - 1_000
    assert rejections(since_ms) == {}
    with JobRecords(place) as job:
        job.refused("tx-1", HalfPosition(1, 7), "cb.op:1:9", Action.ROLLBACK, "it contradicts the decision")
    assert rejections(since_ms) == {("1:7", "tx-1", "rollback"): "it contradicts the decision"}
    assert rejections(since_ms + 3_600_000) == {}


def test_while_kafka_is_away_none_is_known(place: Place) -> None:
    assert rejected_ops(place.on("127.0.0.1:1").settings())(0) == {}
