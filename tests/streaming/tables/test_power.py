"""Rows that a table has taken are there after a loss of power, and a full disk is named."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from checkback.exceptions import DestinationError
from streaming.batch.failpoints import Failpoint
from tests.streaming.tables.driver import Query, messages
from tests.tables import delta_table, parquet_table
from torture.disk import Disk, can_be_had


@pytest.fixture
def disk() -> Iterator[Disk]:
    if not can_be_had():
        pytest.skip("This machine lets nobody mount a file system of its own: that needs root, ext4 and loop devices.")
    with tempfile.TemporaryDirectory() as place:
        disk = Disk(Path(place))
        disk.make()
        yield disk
        disk.close()


@pytest.mark.parametrize("kind", [delta_table, parquet_table])
def test_a_table_has_its_rows_after_a_loss_of_power(query: Query, disk: Disk, kind: type) -> None:
    table = kind(disk.folder / "table")
    for number in range(2):
        query.driver(table.sinks()).run(number, messages("orders", number))
    disk.cut()
    disk.unmount()
    disk.mount()
    assert sorted(row["id"] for row in table.read()) == ["tx-0", "tx-1"]
    query.driver(table.sinks()).run(2, messages("orders", 2))
    assert len(table.read()) == 3


def test_a_full_disk_is_named_as_the_cause(query: Query, disk: Disk) -> None:
    lake = delta_table(disk.folder / "table")

    def fill(step: Failpoint, _batch: int) -> None:
        if step is Failpoint.BEFORE_PUBLISH:
            disk.fill()

    query.driver(lake.sinks()).run(0, messages("orders", 0))
    with pytest.raises(DestinationError, match=r"Destination lake could .*No space left on device") as error:
        query.driver(lake.sinks(), fill).run(1, messages("orders", 1))
    assert "\n" not in str(error.value)
    disk.make_room()
    query.driver(lake.sinks()).run(1, messages("orders", 1))
    assert sorted(row["id"] for row in lake.read()) == ["tx-0", "tx-1"]
