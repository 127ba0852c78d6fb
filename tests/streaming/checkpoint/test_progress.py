"""Which batches may be written, which are in already, and which stop the job."""

import pytest

from checkback.exceptions import ProgressError
from streaming.checkpoint.progress import LastBatch, Progress, ProgressVerdict, judge_progress, judge_start


@pytest.mark.parametrize(
    ("progress", "batch", "verdict"),
    [
        *((Progress(None), 0, ProgressVerdict.WRITE), (Progress(0, ""), 0, ProgressVerdict.WRITE)),
        (Progress(5, "other"), 5, ProgressVerdict.WRITE),
        (Progress(2, "other"), 5, ProgressVerdict.WRITE),  # idle batches write nothing
        (Progress(6, "hash"), 5, ProgressVerdict.SKIP),
    ],
)
def test_lawful_progress(progress: Progress, batch: int, verdict: ProgressVerdict) -> None:
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


def test_a_partition_that_forgot_what_all_have_written_stops_the_job() -> None:
    assert judge_progress(Progress(5, "other"), 8, "hash", 0, floor=5) is ProgressVerdict.WRITE
    with pytest.raises(ProgressError, match="was at least 5"):
        judge_progress(Progress(4, "other"), 8, "hash", 0, floor=5)


FRESH = LastBatch(None, "", finished_any=False, floor=0)
FIRST = LastBatch(0, "hash", finished_any=False, floor=0)
LATER = LastBatch(7, "hash", finished_any=True, floor=5)
TORN = LastBatch(7, "", finished_any=True, floor=5)


@pytest.mark.parametrize(
    ("last", "progress"),
    [
        (FRESH, [Progress(None), Progress(None)]),
        (FIRST, [Progress(None), Progress(1, "hash")]),
        (LATER, [Progress(5, "x"), Progress(7, "x"), Progress(8, "hash")]),
        (TORN, [Progress(7, "x"), Progress(8, "whatever: the repair judges it")]),
    ],
)
def test_a_start_that_may_go_on(last: LastBatch, progress: list[Progress]) -> None:
    judge_start(progress, last)


@pytest.mark.parametrize(
    ("last", "progress", "told"),
    [
        (FRESH, Progress(3, "x"), "the checkpoint has none"),
        (FIRST, Progress(1, "x"), "another batch 0"),
        (LATER, Progress(None), "no progress offset"),
        (LATER, Progress(4, "x"), "was at least 5"),
        (LATER, Progress(8, "x"), "another batch 7"),
        (LATER, Progress(9, "hash"), "Kafka has batch 8"),
        (TORN, Progress(9, "x"), "Kafka has batch 8"),
        (LastBatch(0, "hash", finished_any=True, floor=0), Progress(None), "no progress offset"),
    ],
)
def test_a_start_that_would_do_harm(last: LastBatch, progress: Progress, told: str) -> None:
    with pytest.raises(ProgressError, match=told):
        judge_start([Progress(None) if last is FIRST else Progress(last.floor or None, "x"), progress], last)
