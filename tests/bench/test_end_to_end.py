"""The whole way, once and small."""

import pytest

from bench.end_to_end.measure import EndToEndPlan, measure_end_to_end


@pytest.mark.lab
@pytest.mark.service
def test_what_is_sent_arrives_once() -> None:
    result = measure_end_to_end(EndToEndPlan(transactions=10_000, warm_up=3_000, threads=8))
    assert result.delivered_again == 0
    assert 0 < result.transactions_per_second <= result.sent_per_second
    assert 0 < result.p50_ms <= result.p99_ms
    assert result.sender_us > 0
    assert result.consumer_us > 0
