"""A Delta table that another process compacts while the job is stopped, as docs/sinks.md allows."""

from pathlib import Path

from tests.streaming.tables.driver import Query, messages
from tests.tables import delta_table
from torture.sink_faults import compact_in_a_process
from torture.tables import LAKE, Tables


def test_a_batch_is_not_there_twice_when_it_is_run_again_after_that(query: Query, tmp_path: Path) -> None:
    table = delta_table(tmp_path / LAKE)
    for number in range(3):
        query.driver(table.sinks()).run(number, messages("orders", number))
    assert compact_in_a_process(str(tmp_path / LAKE), {}) == 3
    assert len(list((tmp_path / LAKE).glob("*.parquet"))) == 1  # the others are gone, and the log has a checkpoint
    assert list((tmp_path / LAKE / "_delta_log").glob("*.checkpoint.parquet"))
    for number in (2, 3):
        query.driver(table.sinks()).run(number, messages("orders", number))
    found = Tables(tmp_path).found()[LAKE]
    assert {name: len(copies) for name, copies in found.items()} == {f"tx-{number}": 1 for number in range(4)}
