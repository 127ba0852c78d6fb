"""Faults in the midst of a large batch, on the real job: nothing of a batch that was cut short is committed.

Each fault strikes when seven tenths of a batch have been evaluated, with rows on their way in every part of the pipe.
On ``local-cluster`` Spark tries a task again by itself; on ``local[2]`` the job ends, and is started again.
"""

from collections.abc import Iterator
from itertools import islice

import pytest

from torture.ground import Ground, make_ground
from torture.large_batches import LargeBatches, LargeRound, Strike, large_schedule

TRANSACTIONS = 8_000
WITHOUT_A_RESTART = (Strike.SINK_WORKER, Strike.EXECUTOR)
"""On a cluster the job lives through these. 'checkback torture --large-batches' has all of them in both places."""
ENDING_THE_JOB = (Strike.STATE_WORKER_HELD,)


@pytest.fixture
def ground(request: pytest.FixtureRequest) -> Iterator[Ground]:
    made = make_ground(executors=request.param)
    try:
        made.prepare()
        yield made
    finally:
        made.broker.stop()
        made.clear(keep_logs=False)


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("ground", "strikes"),
    [(1, WITHOUT_A_RESTART), (0, ENDING_THE_JOB)],
    ids=["local-cluster", "local[2]"],
    indirect=["ground"],
)
def test_a_batch_cut_short_is_not_committed(ground: Ground, strikes: tuple[Strike, ...]) -> None:
    with LargeBatches(ground, TRANSACTIONS) as running:
        for number, strike in enumerate(strikes, start=1):
            verdict = running.run([LargeRound(number, strike, tenth=7)])
            assert verdict.holds, f"{strike}: {verdict}"
            assert verdict.delivered == verdict.committed == TRANSACTIONS * 9 // 10
        total = running.all_in_all()
    assert total.holds, total
    assert total.delivered == total.committed >= len(strikes) * TRANSACTIONS * 9 // 10


def test_a_schedule_is_the_seeds_and_holds_every_strike() -> None:
    for executors in (0, 1):
        first, again = (list(islice(large_schedule(5, executors), 20)) for _ in range(2))
        assert first == again
        assert {this.strike for this in first} == set(Strike) - ({Strike.EXECUTOR} if executors == 0 else set())
        assert {this.tenth for this in islice(large_schedule(5, executors), 200)} == set(range(1, 11))
