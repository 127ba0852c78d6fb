"""Which batches may be written, which are in already, and which stop the job."""

import pytest

from checkback.exceptions import ProgressError
from streaming.progress import Progress, Verdict, judge_progress


@pytest.mark.parametrize(
    ("progress", "batch", "verdict"),
    [
        (Progress(None), 0, Verdict.WRITE),
        (Progress(0, ""), 0, Verdict.WRITE),
        (Progress(5, "other"), 5, Verdict.WRITE),
        (Progress(2, "other"), 5, Verdict.WRITE),  # idle batches write nothing
        (Progress(6, "hash"), 5, Verdict.SKIP),
    ],
)
def test_lawful_progress(progress: Progress, batch: int, verdict: Verdict) -> None:
    assert judge_progress(progress, batch, "hash", 0) is verdict


@pytest.mark.parametrize(
    ("progress", "batch", "told"),
    [
        (Progress(None), 1, "no progress offset"),
        (Progress(6, "other"), 5, "another batch 5"),
        (Progress(7, "hash"), 5, "Kafka has batch 6"),
    ],
)
def test_unlawful_progress_stops_the_job(progress: Progress, batch: int, told: str) -> None:
    with pytest.raises(ProgressError, match=told):
        judge_progress(progress, batch, "hash", 0)
