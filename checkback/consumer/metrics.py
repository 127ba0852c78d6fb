"""What a consumer has done, and how far it is behind: as numbers, and for Prometheus.

``collector_of`` needs prometheus-client, which comes with checkback-job and is not required by checkback.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from checkback.consumer.listener import TopicPartition
from checkback.consumer.offsets.counts import MessageCounts
from checkback.exceptions import ConfigurationError


class PartitionFigures(NamedTuple):
    """Of a partition that the consumer has now."""

    partition: TopicPartition
    position: int
    """The next offset to read, as it would be stored now."""
    lag: int | None
    """Offsets from there to the end, those of transaction ends among them; None: the end is not known yet."""
    span: int
    """Offsets from the oldest message under way to the newest."""
    held: int
    """Messages under way."""


@dataclass(frozen=True)
class Figures:
    """Of one consumer, or of one inbox, at one moment."""

    group: str
    partitions: Sequence[PartitionFigures] = ()
    topics: Mapping[str, MessageCounts] = field(default_factory=dict)
    """What has become of messages since it was started; those tried again are counted with the retry topic."""
    passed_over: int | None = None
    """By an inbox; None: these are not an inbox's."""

    @property
    def all(self) -> MessageCounts:
        """Of all topics together."""
        total = MessageCounts()
        for counts in self.topics.values():
            total.add(counts)
        return total

    @property
    def lag(self) -> int:
        """Of all partitions of which the end is known."""
        return sum(one.lag or 0 for one in self.partitions)


class HasFigures(Protocol):
    """A consumer, or an inbox."""

    def figures(self) -> Figures:
        """The figures now."""


_GAUGES = (
    ("lag_messages", "lag", "Offsets between what is done and the end of the partition."),
    ("window_span_offsets", "span", "Offsets from the oldest message under way to the newest."),
    ("under_way_messages", "held", "Messages read and not done."),
)
_COUNTERS = (
    ("done", "Messages that the listener was done with."),
    ("retried", "Messages that failed and are tried again."),
    ("dead", "Messages that went to the dead letters."),
    ("given_up", "Messages that failed while broadcasting, and were dropped."),
    ("filtered", "Messages not wanted, by their tags."),
    ("skipped", "Offsets gone past without handling what was there."),
)


_PASSED_OVER = "Messages that an inbox has passed over, since their effect was there."


def collector_of(*sources: HasFigures) -> Any:
    """A collector: ``prometheus_client.REGISTRY.register(collector_of(consumer, inbox))``.

    One takes all consumers and inboxes of a process: a registry takes each name once. Counters of one group are added
    up; of a partition that several consumers have, while broadcasting, the largest figures are told.

    Raises:
        ConfigurationError: prometheus-client is not installed.
    """
    try:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily  # noqa: PLC0415  (not required)
    except ImportError as error:
        raise ConfigurationError("Metrics for Prometheus need: pip install prometheus-client.") from error

    class PrometheusCollector:
        def collect(self) -> Iterator[Any]:
            found = [source.figures() for source in sources]
            for name, attribute, said in _GAUGES:
                gauge = GaugeMetricFamily(f"checkback_consumer_{name}", said, labels=["group", "topic", "partition"])
                for partition, number in sorted(_largest(found, attribute).items()):
                    gauge.add_metric(partition, number)
                yield gauge
            for name, said in _COUNTERS:
                counter = CounterMetricFamily(f"checkback_consumer_{name}_messages", said, labels=["group", "topic"])
                for topic, number in sorted(_by_topic(found, name).items()):
                    counter.add_metric(topic, number)
                yield counter
            passed = CounterMetricFamily("checkback_consumer_passed_over_messages", _PASSED_OVER, labels=["group"])
            for group, number in sorted(_passed_over(found).items()):
                passed.add_metric([group], number)
            yield passed

    return PrometheusCollector()


def _largest(found: Iterable[Figures], attribute: str) -> dict[tuple[str, str, str], int]:
    """By group, topic and partition; without those that are not known."""
    numbers: dict[tuple[str, str, str], int] = {}
    for figures in found:
        for one in figures.partitions:
            number = getattr(one, attribute)
            if number is not None:
                labels = (figures.group, one.partition.topic, str(one.partition.partition))
                numbers[labels] = max(number, numbers.get(labels, number))
    return numbers


def _by_topic(found: Iterable[Figures], name: str) -> Counter[tuple[str, str]]:
    """One kind of count, by group and topic."""
    numbers: Counter[tuple[str, str]] = Counter()
    for figures in found:
        for topic, counts in figures.topics.items():
            numbers[figures.group, topic] += getattr(counts, name)
    return numbers


def _passed_over(found: Iterable[Figures]) -> Counter[str]:
    """By group; only of those that have an inbox."""
    numbers: Counter[str] = Counter()
    for figures in found:
        if figures.passed_over is not None:
            numbers[figures.group] += figures.passed_over
    return numbers
