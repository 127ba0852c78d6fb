"""Nothing of a batch gets to Kafka before what it rests on is on the disk."""

from types import SimpleNamespace
from typing import Any

import pytest

from checkback.wire.protocol import Topics
from streaming.brokers.client import SinkSettings
from streaming.sink import ExactlyOnceSink


class Folder:
    """A checkpoint whose disk takes nothing."""

    def floor(self) -> int:
        return 0

    def entry(self, number: int) -> Any:
        return SimpleNamespace(number=number, content_hash="", time_ms=0)

    def synchronise(self) -> None:
        raise OSError(5, "Input/output error")


class Outcomes:
    """Rows that nobody may evaluate."""

    def mapInArrow(self, *_: object) -> None:  # noqa: N802  (Spark's own name)
        raise AssertionError("The batch was evaluated.")


def test_a_batch_is_not_evaluated_while_what_it_rests_on_may_be_lost() -> None:
    folder: Any = Folder()
    preconditions: Any = SimpleNamespace(before=lambda _entry: 0, run="run")
    outcomes: Any = Outcomes()
    sink = ExactlyOnceSink(SinkSettings("nowhere:9092", Topics(), 60_000), folder, preconditions, 2)
    with pytest.raises(OSError, match="Input/output error"):
        sink(outcomes, 7)
