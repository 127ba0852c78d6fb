"""Changed rules of ``[sinks]`` hold from the first batch that has never been begun."""

import pytest

from checkback.exceptions import ConfigurationError
from streaming.batch.failpoints import Failpoint
from tests.streaming.tables.driver import Crash, CrashError, Query, messages, publisher
from tests.tables import Table


def test_without_rules_there_is_nothing_to_publish(query: Query, other: Table) -> None:
    settings = query.settings({"tables": {other.name: other.settings}})
    assert publisher(settings, query.spark) is None


def test_a_message_of_a_batch_cut_off_is_not_lost_when_the_rules_change(query: Query, other: Table) -> None:
    topic = query.place.real_topic
    with pytest.raises(CrashError):
        query.driver(other.sinks(), Crash(Failpoint.BEFORE_PUBLISH)).run(0, messages(topic, 1))
    # Kafka has batch 0, without the message: under the new rules it would be skipped there
    driver = query.driver({"rules": [], "tables": {other.name: other.settings}})
    driver.run(0, messages(topic, 1))
    query.commit(0)
    driver.run(1, messages(topic, 2))
    assert [row["id"] for row in other.read()] == ["tx-1"]
    assert [record.value for record in query.place.read(topic)] == [b"2"]


def test_a_batch_cut_off_is_finished_in_the_same_place(query: Query, table: Table, other: Table) -> None:
    """Of two tables the first one has it. Under swapped names it would be there twice, or never in the other one."""
    rules = {"rules": [{"topic": "*", "to": [table.name, other.name]}]}
    tables = {table.name: table.settings, other.name: other.settings}
    with pytest.raises(CrashError):
        query.driver(rules | {"tables": tables}, Crash(Failpoint.BETWEEN_DESTINATIONS)).run(0, messages("orders", 1))
    assert ([row["id"] for row in table.read()], other.read()) == (["tx-1"], [])
    swapped = {table.name: other.settings, other.name: table.settings}
    with pytest.raises(ConfigurationError, match=rf"went to {table.name} \(.*\), {other.name} \(.*, and must be"):
        query.driver(rules | {"tables": swapped})
    query.driver(rules | {"tables": tables}).run(0, messages("orders", 1))
    assert [row["id"] for row in [*table.read(), *other.read()]] == ["tx-1", "tx-1"]
