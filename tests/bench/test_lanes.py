"""What producers that deliver themselves are measured by: each once, and small."""

import pytest

from bench.dead_lanes import DeadLanes, measure_dead_lanes
from bench.throughput import measure_throughput
from checkback.exceptions import ConfigurationError
from checkback.producing.delivery import DeliveryMode


def test_a_mix_is_the_jobs() -> None:
    with pytest.raises(ConfigurationError, match="leave out one"):
        measure_throughput(mixed=True, delivery=DeliveryMode.DIRECT)


@pytest.mark.lab
def test_of_what_lanes_have_delivered_the_job_delivers_nothing() -> None:
    result = measure_throughput(10_000, warm_up=1_000, delivery=DeliveryMode.DIRECT)
    assert result.delivered_once == 0
    assert result.cost.transactions == result.transactions


@pytest.mark.lab
def test_what_dead_lanes_left_open_is_there_once() -> None:
    assert measure_dead_lanes(DeadLanes(lanes=20, half_messages=5)).delivered_once == 100
