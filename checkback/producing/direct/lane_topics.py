"""Which messages a lane delivers, and which go the job's way because of their topics. No I/O of its own."""

from collections.abc import Callable, Iterable, Sequence

from checkback.producing.direct.entries import LaneHalf

_BELIEVED_SECONDS = 60.0
_MOST = 10_000
"""Topics that are remembered."""

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
        self._refused: set[str] = set()

    def learn(self, entries: Iterable[LaneHalf]) -> None:
        """Look at the topics of these, of all that are to be looked at together."""
        unfit = [one.topic for entry in entries for one in entry.records if self._unfit(one.topic, one.partition)]
        again = [topic for topic in dict.fromkeys(unfit) if self._may_ask(topic)]
        if not again:
            return
        if len(self._asked) > _MOST:
            self._partitions.clear()
            self._asked.clear()
        self._partitions.update(self._ask(again))
        self._asked.update(dict.fromkeys(again, self._clock()))

    def fit(self, entry: LaneHalf) -> bool:
        """Whether the lane may try it: its topics are there, this client may write to them, and none has refused.

        One of which Kafka says nothing is tried.
        """
        return not any(
            topic in self._refused or (topic in self._partitions and self._unfit(topic, partition))
            for topic, partition, *_ in entry.records
        )

    def refused(self, topics: Iterable[str]) -> None:
        """Kafka has refused a message of each of these: the lane writes to them no more.

        Both libraries have counted it, and Kafka has not: their next message there would be out of order for it.
        """
        self._refused.update(topics)

    def _unfit(self, topic: str, partition: int | None) -> bool:
        return self._partitions.get(topic, 0) <= (partition or 0)

    def _may_ask(self, topic: str) -> bool:
        asked = self._asked.get(topic)
        return topic not in self._refused and (asked is None or self._clock() >= asked + _BELIEVED_SECONDS)
