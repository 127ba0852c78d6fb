"""How far behind the job is, as long as that is known."""

from streaming.fairness.held_back import PartitionEnds, PartitionId
from streaming.observing.figures import JobBacklog


def test_it_is_not_known_while_the_leader_of_one_partition_is_away() -> None:
    backlog = JobBacklog(["cb.half"])
    backlog.read_to({("cb.half", 0): 5, ("cb.half", 1): 5})
    backlog.looked({PartitionId("cb.half", 0): PartitionEnds(5, 5, 0)}, 0.0)
    assert backlog.now(0.0) is None
    both = {PartitionId("cb.half", 0): PartitionEnds(5, 5, 0), PartitionId("cb.half", 1): PartitionEnds(7, 7, 0)}
    backlog.looked(both, 1.0)
    assert sum(one.records for one in backlog.now(1.0) or ()) == 2
    # of the other nothing has been heard for an hour
    backlog.looked({PartitionId("cb.half", 0): PartitionEnds(5, 5, 0)}, 3_600.0)
    assert backlog.now(3_600.0) is None
