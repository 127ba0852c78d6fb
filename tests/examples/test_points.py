"""The example runs as its README says, shortly; what its verdict finds is in ``test_points_verdict.py``."""

import re
from pathlib import Path

import pytest

from tests.examples.running import DEADLINE_SECONDS, run_example


def number(what: str, told: str) -> int:
    found = re.search(what, told)
    assert found, told
    return int(found[1])


@pytest.mark.timeout(DEADLINE_SECONDS + 20)
def test_points_equal_orders_although_shop_and_services_are_killed(tmp_path: Path) -> None:
    status, told = run_example(tmp_path, "examples.points", "--seconds", "8", "--seed", "52")
    assert status == 0, told
    assert "Points equal orders: " in told, told
    assert "Traceback" not in told, told
    assert told.count("SIGKILL to the shop") == 1, told
    assert told.count("SIGKILL to points service") == 1, told
    # one that ordered next to nothing would keep every promise
    assert number(r"orders +(\d+)", told) >= 20, told
    assert number(r"Booked after they had failed: (\d+)", told) > 0, told
    assert number(r"Dead letters: (\d+)", told) == 0, told
