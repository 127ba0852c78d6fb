"""The steps of a batch at which a fault would be worst; fault tests end processes there."""

from collections.abc import Callable
from enum import StrEnum


class Failpoint(StrEnum):
    """Where a batch is, in the order in which it gets there."""

    BATCH_STARTS = "batch starts"
    """Driver: its entry is in the offset log, nothing has been evaluated."""
    IN_STATE = "in the state function"
    """Task, in the Python worker that runs the state: a segment has been evaluated."""
    BEFORE_TRANSACTION = "before the Kafka transaction"
    """Task: earlier producers are fenced, the progress offset is read."""
    IN_TRANSACTION = "in the Kafka transaction"
    """Task: a piece of the rows has been handed to the producer."""
    STATE_COMMITTED = "between state commit and offset commit"
    """Task: Spark's state store has the batch, Kafka has it not."""
    AFTER_TRANSACTION = "after the Kafka transaction"
    """Task: Kafka has the batch, the driver does not know."""
    BEFORE_PUBLISH = "before publishing"
    """Driver, like the two that follow only where rules send messages to tables: all partitions are in Kafka, no table
    has the batch."""
    BETWEEN_DESTINATIONS = "between two destinations"
    """Driver: one more table has the batch, the next one does not."""
    AFTER_PUBLISH = "after publishing"
    """Driver: every table has the batch, its staged files are still there."""
    BATCH_ENDS = "batch ends"
    """Driver: all partitions are in Kafka and in all tables, Spark's commit log does not have the batch."""


FailpointHook = Callable[[Failpoint, int], None]
"""Called with the step and the batch's number."""


def no_failpoint(step: Failpoint, batch: int) -> None:
    """What a job has that nobody breaks."""
