"""What Spark says of batches is read once."""

import json
from types import SimpleNamespace
from typing import Any

from streaming.progress_reports import ProgressReports


class Report:
    """As Java has it, of a query without sources."""

    def __init__(self, batch: int, second: int = 0) -> None:
        self._batch, self._time = batch, f"2026-11-25T00:00:{second:02}.000Z"

    def batchId(self) -> int:  # noqa: N802  (Java's)
        return self._batch

    def timestamp(self) -> str:
        return self._time

    def json(self) -> str:
        rates = {"batchDuration": 1, "numInputRows": 0, "inputRowsPerSecond": 0.0, "processedRowsPerSecond": 0.0}
        sink = {"description": "", "numOutputRows": 0, "metrics": {}}
        named = {"id": "00000000-0000-0000-0000-000000000001", "runId": "00000000-0000-0000-0000-000000000002"}
        lists: dict[str, list[Any]] = {"stateOperators": [], "sources": []}
        times = {"timestamp": self._time, "batchId": self._batch, "durationMs": {}, "eventTime": {}}
        return json.dumps({**named, "name": "q", **times, **rates, **lists, "sink": sink, "observedMetrics": {}})


def test_each_report_comes_once_and_in_order() -> None:
    kept: list[Report] = []
    query: Any = SimpleNamespace(_jsq=SimpleNamespace(recentProgress=lambda: kept))
    reports = ProgressReports()
    assert reports.new(query) == []
    kept += [Report(0), Report(1)]
    assert [one.batchId for one in reports.new(query)] == [0, 1]
    assert reports.new(query) == []
    kept += [Report(1, second=10), Report(2)]  # nothing came for ten seconds: of the same number
    del kept[0]
    assert [one.batchId for one in reports.new(query)] == [1, 2]
    kept[:] = [Report(7), Report(8)]  # all that was known is gone meanwhile
    assert [one.batchId for one in reports.new(query)] == [7, 8]
