"""Where the claim lies, and a task's look at it: whether the run that began its batch still has the topics.

A start takes the claim, then fences the producers of earlier runs. A task of such a run that has none yet gets one
after that, and nothing in Kafka would keep it from writing its batch, which the start may have put under other rules
meanwhile. So a task looks at the claim when nobody can fence it unnoticed any more: it has its producer. If that came
before the fence it is fenced; if after, the claim is another run's.
"""

from checkback.exceptions import TakenOverError
from checkback.kafka.librdkafka.groups import committed
from checkback.kafka.librdkafka.library import Consumer, TopicPartition
from checkback.wire.groups import metadata_of
from checkback.wire.json_reading import read_object
from checkback.wire.protocol import Topics
from streaming.brokers.retrying import retrying

_SECONDS = 60.0


def refuse_another_run(consumer: Consumer, topics: Topics, run: str) -> None:
    """Refuse to write for a run that another one has taken the topics from.

    Args:
        consumer: of :func:`claim_group`.
        topics: whose claim it is.
        run: :attr:`streaming.ownership.claim.Owner.run` of the run that began the batch; empty: it has
            claimed nothing.

    Raises:
        TakenOverError: one has.
        KafkaException: Kafka does not say, for a minute.
    """
    if not run:
        return
    (found,) = retrying(_SECONDS)(committed, consumer, [TopicPartition(topics.progress, 0)])
    if found.offset >= 0 and _run(metadata_of(found)) not in {None, run}:
        raise TakenOverError(
            f"Another job has taken {topics.half} over since this batch was begun: nothing was written."
        )


def _run(metadata: str) -> str | None:
    try:
        return str(read_object(metadata)["run"])
    except (ValueError, KeyError):
        return None
