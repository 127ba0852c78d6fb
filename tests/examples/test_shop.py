"""The example runs as its README says."""

from pathlib import Path

import pytest

from tests.examples.running import DEADLINE_SECONDS, run_example


@pytest.mark.timeout(DEADLINE_SECONDS + 20)
def test_every_service_gets_exactly_the_paid_orders(tmp_path: Path) -> None:
    status, told = run_example(tmp_path, "examples.shop")
    assert status == 0, told
    assert told.count("the shop died between its database commit and the op") == 2, told
    assert told.count("the shop died before its database commit") == 1, told
    assert told.count("the card was refused") == 2, told
    assert told.count(" got 9 messages:") == 3, told
