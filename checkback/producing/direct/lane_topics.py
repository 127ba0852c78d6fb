"""Which messages a lane delivers, and which go the job's way because of their topics. No I/O of its own."""

from collections.abc import Callable, Iterable, Sequence

from checkback.producing.direct.entries import LaneHalf

_BELIEVED_SECONDS = 60.0

Ask = Callable[[Sequence[str]], dict[str, int]]
"""Gives the partitions of topics, 0 where a topic is missing or may not be written to."""


class LaneTopics:
    """Looks at each topic once; again after a minute where it was not fit, or when a later partition is asked for.

    ``clock`` is in seconds.
    """

    def __init__(self, ask: Ask, clock: Callable[[], float]) -> None:
        self._ask = ask
        self._clock = clock
        self._partitions: dict[str, int] = {}
        self._asked: dict[str, float] = {}
        self._alone: dict[str, float] = {}

    def fit(self, entry: LaneHalf) -> bool:
        """Whether the lane may try it: its topics are there, and this client may write to them."""
        unfit = [one.topic for one in entry.records if self._unfit(one.topic, one.partition)]
        again = [topic for topic in dict.fromkeys(unfit) if self._may_ask(topic)]
        if again:
            self._partitions.update(self._ask(again))
            self._asked.update(dict.fromkeys(again, self._clock()))
        # one of which Kafka says nothing is tried
        return not any(
            topic in self._partitions and self._unfit(topic, partition) for topic, partition, *_ in entry.records
        )

    def alone(self, entry: LaneHalf) -> bool:
        """Whether it is to be tried alone: its topic has refused something a moment ago."""
        return bool(self._alone) and any(self._clock() < self._alone.get(one.topic, 0.0) for one in entry.records)

    def refused(self, topics: Iterable[str]) -> None:
        """Kafka has refused a message of each of these."""
        self._alone.update(dict.fromkeys(topics, self._clock() + _BELIEVED_SECONDS))

    def _unfit(self, topic: str, partition: int | None) -> bool:
        return self._partitions.get(topic, 0) <= (partition or 0)

    def _may_ask(self, topic: str) -> bool:
        asked = self._asked.get(topic)
        return asked is None or self._clock() >= asked + _BELIEVED_SECONDS
