"""A job with open transactions, once and small."""

from pathlib import Path

import pytest

from bench.checkpoint_watch import Content, folder_content
from bench.lasting.many_open import OpenPlan, measure_open
from bench.latency import Rate


def test_a_folders_files_are_counted(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "one").write_bytes(bytes(10))
    (tmp_path / "two").write_bytes(bytes(5))
    assert folder_content(tmp_path) == Content(2, 15)
    assert folder_content(tmp_path / "none") == Content(0, 0)


@pytest.mark.service
def test_a_few_open_ones() -> None:
    (result,) = measure_open([5_000], OpenPlan(rate=Rate(20, 1, 10)))
    assert result.open_transactions == 5_000
    assert 0 < result.idle_batch_seconds_p50 <= result.idle_batch_seconds_most
    assert result.checkpoint_mib > 1
    assert 0 < result.running_after_seconds <= result.delivers_after_seconds
