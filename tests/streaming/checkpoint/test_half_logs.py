"""How far the half partitions go, as the driver tells a batch's tasks: once, however often the batch is run."""

from collections.abc import Iterable
from typing import Any

from checkback.wire.protocol import Topics
from streaming.checkpoint.half_logs import PROPERTY, HalfLogs
from streaming.checkpoint.offset_log import Entry


class Folder:
    """A checkpoint folder in memory."""

    def __init__(self) -> None:
        self.files: dict[str, bytes | None] = {}

    def names(self, _: str) -> list[str]:
        return list(self.files)

    def read(self, name: str) -> bytes | None:
        return self.files[name]

    def write(self, name: str, content: bytes) -> None:
        self.files[name] = content

    def remove(self, name: str) -> None:
        self.files.pop(name, None)


class Logs(HalfLogs):
    """Asks no Kafka."""

    def __init__(self, folder: Any) -> None:
        super().__init__(folder, {}, Topics())
        self.ends = {0: 100, 1: 200}
        self.asked = 0

    def _ask(self, partitions: Iterable[int]) -> dict[str, int]:
        self.asked += 1
        return {str(partition): self.ends.get(partition, 0) for partition in partitions}


class Spark:
    """What the tasks would find."""

    def __init__(self) -> None:
        self.properties: dict[str, str] = {}

    def setLocalProperty(self, name: str, value: str) -> None:  # noqa: N802  (Spark's)
        self.properties[name] = value


def entry(number: int, ops: dict[str, int], content_hash: str = "hash") -> Entry:
    return Entry(number, content_hash, 0, 0, ({"cb.half": {"0": 10, "1": 20}, "cb.op": ops}, 7))


def told(logs: Logs, one: Entry) -> str:
    spark: Any = Spark()
    logs.tell(spark, one)
    return str(spark.properties[PROPERTY])


def test_a_batch_that_is_run_again_is_told_what_it_was_told_first() -> None:
    folder = Folder()
    first = Logs(folder)
    assert told(first, entry(3, {"0": 1, "1": 1})) == "3 0:10:100 1:20:200"
    again = Logs(folder)
    again.ends = {0: 999, 1: 999}
    assert told(again, entry(3, {"0": 1, "1": 1})) == "3 0:10:100 1:20:200"
    assert again.asked == 0


def test_another_batch_of_that_number_is_another() -> None:
    folder = Folder()
    told(Logs(folder), entry(3, {"0": 1, "1": 1}))
    later = Logs(folder)
    later.ends = {0: 101, 1: 201}
    assert told(later, entry(3, {"0": 1, "1": 2}, "another")) == "3 0:10:101 1:20:201"
    assert told(Logs(folder), entry(3, {"0": 1, "1": 2}, "another")) == "3 0:10:101 1:20:201"


def test_what_was_kept_and_is_torn_is_asked_for_again() -> None:
    folder = Folder()
    told(Logs(folder), entry(3, {"0": 1, "1": 1}))
    for torn in (None, b"", b"{", b"[]", b'{"entry": "hash", "ends": 3}'):
        folder.files["checkback-ends-3.json"] = torn
        assert told(Logs(folder), entry(3, {"0": 1, "1": 1})) == "3 0:10:100 1:20:200"


def test_nothing_is_asked_for_a_batch_without_ops() -> None:
    logs = Logs(Folder())
    told(logs, entry(0, {"0": 1, "1": 1}))
    assert told(logs, entry(1, {"0": 1, "1": 1})) == "1 0:10:-1 1:20:-1"
    assert logs.asked == 1


def test_a_partition_that_only_the_op_topic_has_ends_at_once() -> None:
    assert told(Logs(Folder()), entry(0, {"0": 1, "1": 1, "2": 1})) == "0 0:10:100 1:20:200 2:0:0"


def test_few_are_kept() -> None:
    folder = Folder()
    logs = Logs(folder)
    for number in range(30):
        told(logs, entry(number, {"0": number, "1": 1}))
    told(Logs(folder), entry(60, {"0": 60, "1": 1}))
    assert list(folder.files) == ["checkback-ends-60.json"]
