"""Which half partition a producer writes to, while the topics are grown."""

from checkback.exceptions import ConfigurationError
from checkback.producing.partition_run import PartitionRun


class Kafka:
    """Says how many partitions there are, or nothing."""

    def __init__(self) -> None:
        self.partitions = 2
        self.now = 0.0
        self.away = False

    def ask(self) -> int:
        if self.away:
            raise ConfigurationError("away")
        return self.partitions

    def used(self, run: PartitionRun) -> set[int]:
        run.look()
        return {run.next_partition() for _ in range(1_000)}


def test_partitions_that_were_added_are_used_a_minute_later() -> None:
    kafka = Kafka()
    run = PartitionRun(kafka.ask, lambda: kafka.now)
    kafka.partitions = 4
    kafka.now = 59
    assert kafka.used(run) == {0, 1}
    kafka.now = 60
    assert kafka.used(run) == {0, 1, 2, 3}


def test_without_an_answer_what_is_known_stays() -> None:
    kafka = Kafka()
    run = PartitionRun(kafka.ask, lambda: kafka.now)
    kafka.away, kafka.now = True, 60
    assert kafka.used(run) == {0, 1}
