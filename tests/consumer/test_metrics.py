"""What Prometheus gets of a consumer."""

import re
import sys
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from sqlalchemy import create_engine

from checkback.consumer import Figures, MessageCounts, PartitionFigures, TopicPartition, collector_of
from checkback.exceptions import ConfigurationError
from checkback.sql.inbox import SqlInbox

PAGE = Path(__file__).parents[2] / "docs" / "consumers.md"


class Consumer:
    def figures(self) -> Figures:
        partitions = [
            PartitionFigures(TopicPartition("orders", 0), position=7, lag=3, span=2, held=1),
            PartitionFigures(TopicPartition("orders", 1), position=0, lag=None, span=0, held=0),
        ]
        return Figures(
            "points", partitions, {"orders": MessageCounts(done=5, retried=4, dead=3, given_up=2, filtered=1)}
        )


def test_each_figure_is_there_with_its_labels() -> None:
    registry = CollectorRegistry()
    registry.register(collector_of(Consumer()))
    place = {"group": "points", "topic": "orders", "partition": "0"}
    gauges = {"lag_messages": 3, "window_span_offsets": 2, "under_way_messages": 1}
    for name, number in gauges.items():
        assert registry.get_sample_value(f"checkback_consumer_{name}", place) == number
    topic = {"group": "points", "topic": "orders"}
    for name, number in vars(MessageCounts(done=5, retried=4, dead=3, given_up=2, filtered=1)).items():
        assert registry.get_sample_value(f"checkback_consumer_{name}_messages_total", topic) == number
    unknown = {**place, "partition": "1"}
    assert registry.get_sample_value("checkback_consumer_lag_messages", unknown) is None
    assert registry.get_sample_value("checkback_consumer_under_way_messages", unknown) == 0
    assert b"nan" not in generate_latest(registry).lower()


def test_what_inboxes_pass_over_is_there_by_group(tmp_path: Path) -> None:
    engine = create_engine(f"sqlite:///{tmp_path / 'points.db'}")
    inboxes = [
        SqlInbox(engine, group, table=table) for group, table in (("points", "a"), ("points", "b"), ("mail", "a"))
    ]
    for inbox in inboxes:
        inbox.create()
    registry = CollectorRegistry(auto_describe=True)
    registry.register(collector_of(Consumer(), *inboxes))

    def passed_over(group: str) -> float | None:
        return registry.get_sample_value("checkback_consumer_passed_over_messages_total", {"group": group})

    assert (passed_over("points"), passed_over("mail"), passed_over("nobody")) == (0, 0, None)
    for inbox in (inboxes[0], inboxes[0], inboxes[1], inboxes[1], inboxes[1]):
        with engine.begin() as connection, inbox.once(connection, "tx-17"):
            pass
    assert (passed_over("points"), passed_over("mail")) == (3, 0)
    place = {"group": "points", "topic": "orders", "partition": "0"}
    assert registry.get_sample_value("checkback_consumer_lag_messages", place) == 3
    engine.dispose()


def test_two_consumers_of_a_process_are_told_together() -> None:
    registry = CollectorRegistry(auto_describe=True)
    registry.register(collector_of(Consumer(), Consumer()))
    topic = {"group": "points", "topic": "orders"}
    assert registry.get_sample_value("checkback_consumer_done_messages_total", topic) == 10
    assert registry.get_sample_value("checkback_consumer_lag_messages", {**topic, "partition": "0"}) == 3
    samples = [sample for line in generate_latest(registry).splitlines() if (sample := line.split()[0]) != b"#"]
    assert len(samples) == len(set(samples))


def test_the_page_has_each_name_and_no_other() -> None:
    exported = {family.name + "_total" * (family.type == "counter") for family in collector_of(Consumer()).collect()}
    documented = re.findall(r"^\| `(checkback_consumer_\w+)`", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(documented) == sorted(exported)


def test_figures_of_all_topics_together() -> None:
    figures = Figures("points", [], {"a": MessageCounts(done=1, dead=1), "b": MessageCounts(done=2)})
    assert figures.all == MessageCounts(done=3, dead=1)
    assert Consumer().figures().lag == 3


def test_without_the_package_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client.core", None)
    with pytest.raises(ConfigurationError, match="pip install prometheus-client"):
        collector_of(Consumer())
