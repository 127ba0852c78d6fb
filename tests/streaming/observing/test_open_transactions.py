"""What metrics say is open, and how the driver learns of it."""

from collections import Counter

from conf import Settings
from state import REST, OpenByTopic, OpenOf, OutcomeKind, add_open
from streaming.batch.batch import BatchReport
from streaming.observing.labels import MOST, OTHER
from streaming.observing.observation import Observation
from tests.streaming.outcomes import outcome, rows

ONE, ORDERS = (0, 0), ("shop", "orders")


def test_what_was_open_only_between_two_scrapes_is_zero_and_not_unknown() -> None:
    """It had no series, and to Prometheus what has none is not 0: nobody could see that all of it was decided."""
    observation = Observation(Settings())
    sample = observation.metrics.registry.get_sample_value
    labels = dict(zip(("group", "topic"), ORDERS, strict=True))
    observation.batch(BatchReport(7, 3, 0, Counter(half=3), still_open={ONE: {ORDERS: OpenOf(3, 100)}}))
    observation.batch(BatchReport(8, 3, 0, Counter(committed=3), still_open={ONE: {}}))
    assert sample("checkback_open_transactions", labels) is None, "what was open before the start is not counted yet"
    observation.counted({})
    assert sample("checkback_open_transactions", labels) == 0
    assert sample("checkback_oldest_open_seconds", labels) == 0


def test_what_was_open_only_between_two_scrapes_is_bounded_and_hides_nothing() -> None:
    observation = Observation(Settings())
    sample = observation.metrics.registry.get_sample_value
    of_many = {("shop", f"t{number}"): OpenOf(1 + (number < 200), 100) for number in range(300)}
    observation.batch(BatchReport(0, 300, 0, Counter(), still_open={ONE: {**of_many, REST: OpenOf(5, 100)}}))
    assert sample("checkback_open_transactions", {"group": OTHER, "topic": OTHER}) == 107
    assert sample("checkback_open_transactions", {"group": "shop", "topic": "t299"}) is None, "it is one of the others"
    observation.batch(BatchReport(1, 0, 0, Counter(), still_open={ONE: {}}))
    for number in range(2, 100):
        some = {("shop", f"batch {number} {place}"): OpenOf(1, 100) for place in range(50)}
        observation.batch(BatchReport(number, 0, 0, Counter(), still_open={ONE: some}))
    observation.batch(BatchReport(100, 0, 0, Counter(), still_open={ONE: {}}))
    (found,) = (one for one in observation.metrics.registry.collect() if one.name == "checkback_open_transactions")
    assert len(found.samples) <= 2 * MOST + 50
    assert {one.value for one in found.samples} == {0}


def test_what_is_open_in_a_segment_is_whole_where_spark_has_cut_its_rows_in_two() -> None:
    """The second piece took the place of the first: with much state (32 rows a piece) what is open was too little."""
    kind = {"kind": OutcomeKind.OPEN, "half_offset": 4096, "ingested_ms": 100}
    said = [outcome("orders", **kind, attempt=3), outcome("invoices", **kind, attempt=2)]
    found: dict[tuple[int, int], OpenByTopic] = {}
    for row in said:
        for piece in rows(row):
            add_open(piece, found)
    assert found == {(0, 4096): {ORDERS: OpenOf(3, 100), ("shop", "invoices"): OpenOf(2, 100)}}
