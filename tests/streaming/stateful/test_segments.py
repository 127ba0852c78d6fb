"""The adapter around ``state``, on a real Spark with injected time: nothing sleeps for a timer."""

import json
from base64 import b64encode
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  (as everybody calls it)
from pyspark.sql.streaming.state import GroupState

from checkback.wire.message_json import pack
from checkback.wire.protocol import Message, Topics
from state import BUNDLE, NOT_WRITTEN, TIMER, TIMER_SLOT_MS, Event, OutcomeKind, Policies, Policy, RunLimits
from streaming.batch.headers import Headers, packed_headers
from streaming.stateful.broken import OP_EVENTS
from streaming.stateful.decode import CLOCK_KIND, COLUMNS, HALF_KIND, INGEST_TIME, OP_KIND, OTHER_HALF_KIND
from streaming.stateful.segments import with_segment_state
from tests.place import STATE_PARTITIONS

START_MS = 1_700_000_000_000
TOLERANCE_MS = 600_000
POLICY = Policy(transaction_timeout_ms=6_000, check_interval_ms=30_000, check_max=2, timer_slack_ms=1, segment_size=64)
POLICIES = Policies(((0, POLICY),))


class Stream:
    """A query over files: each file is a batch, and says itself when it was taken in."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self._spark = spark
        self._input = folder / "input"
        self._input.mkdir()
        self._clock = folder / "clock"
        self.checkpoint = folder / "checkpoint"
        self._number = 0
        self.outcomes: list[dict[str, Any]] = []
        self.runs: list[tuple[int, list[dict[str, Any]]]] = []
        """Batches by their number, as they were run, and what came out of each."""
        self.timer_slots: set[int] = set()
        """In which timers are due, as the batches report them."""
        self.dies = False
        """Whether Spark's commit log gets no further batch."""
        self._query: Any = None

    def start(
        self, policies: Policies = POLICIES, tolerance_ms: int = TOLERANCE_MS, limits: RunLimits | None = None
    ) -> None:
        """Start, or start again from the checkpoint."""
        clock = str(self._clock)

        def batch_time(_: GroupState) -> int:
            return int(Path(clock).read_text(encoding="utf-8"))

        columns = ", ".join(f"`{name}` {kind}" for name, kind in COLUMNS.items())
        reading = self._spark.readStream.schema(f"{columns}, ingest_ms long").option("maxFilesPerTrigger", 1)
        files = reading.json(str(self._input))
        timed = files.withColumn(INGEST_TIME, F.timestamp_millis("ingest_ms")).drop("ingest_ms")
        outcomes = with_segment_state(timed, policies, Topics(), tolerance_ms, batch_time, limits=limits)
        writing = outcomes.writeStream.option("checkpointLocation", str(self.checkpoint))
        self._query = writing.foreachBatch(self._collect).start()

    def stop(self) -> None:
        self._query.stop()

    def feed(self, after_ms: int, *rows: dict[str, Any]) -> list[dict[str, Any]]:
        """Bring rows ``after_ms`` ms after the start, then a tick of the clock; what comes out of both."""
        before = len(self.outcomes)
        self._clock.write_text(str(START_MS + after_ms), encoding="utf-8")
        for content in ([*rows, _tick()], [_tick()]):
            lines = [json.dumps({**row, "ingest_ms": START_MS + after_ms}) for row in content]
            part = self._input / f".{self._number:05}"
            part.write_text("\n".join(lines), encoding="utf-8")
            part.rename(self._input / f"{self._number:05}.json")  # seen whole or not at all
            self._number += 1
            self._query.processAllAvailable()
        return self.outcomes[before:]

    def _collect(self, frame: DataFrame, number: int) -> None:
        rows = frame.collect()
        self.timer_slots |= {row.attempt for row in rows if row.reason == TIMER}
        made = [row.asDict() for row in rows if row.kind not in NOT_WRITTEN]
        self.runs.append((number, made))
        self.outcomes += made
        if self.dies and made:
            raise RuntimeError("the driver dies here")


def _row(**columns: Any) -> dict[str, Any]:
    blank = dict.fromkeys(COLUMNS)
    common = {"half_partition": 0, "segment": 0, "offset": -1, "record_offset": 0, "left_out": -1, "time_ms": -1}
    texts = columns.keys() & {"transaction_id", "group", "topic", "source"}
    encoded = {name: b64encode(columns[name].encode()).decode() for name in texts}
    return {**blank, **common, **columns, **encoded}


def _tick() -> dict[str, Any]:
    return _row(kind=CLOCK_KIND, half_partition=-1, segment=-1)


def half(offset: int, **columns: Any) -> dict[str, Any]:
    fixed = {"transaction_id": f"tx-{offset}", "group": "shop", "topic": "orders"}
    return _row(kind=HALF_KIND, offset=offset, record_offset=offset, segment=offset // 64, **{**fixed, **columns})


def half_with(offset: int, *headers: tuple[str, bytes], **columns: Any) -> dict[str, Any]:
    """A half message with options, all of whose headers come along."""
    written: Headers = [("cb-id", b"tx-%d" % offset), ("cb-group", b"shop"), ("cb-topic", b"orders"), *headers]
    place = {"offset": offset, "record_offset": offset, "segment": offset // 64}
    return _row(kind=OTHER_HALF_KIND, **place, headers=packed_headers(written), **columns)


def op(offset: int, event: Event, op_offset: int = 0) -> dict[str, Any]:
    action, source = next(said for said, means in OP_EVENTS.items() if means == event)
    fixed = {"transaction_id": f"tx-{offset}", "group": "shop", "topic": action, "source": source}
    return _row(kind=OP_KIND, offset=offset, record_offset=op_offset, segment=offset // 64, **fixed)


def kinds(outcomes: list[dict[str, Any]]) -> list[tuple[OutcomeKind, str]]:
    return sorted((OutcomeKind(row["kind"]), row["transaction_id"]) for row in outcomes)


@pytest.fixture
def stream(spark: SparkSession, tmp_path: Path) -> Iterator[Stream]:
    made = Stream(spark, tmp_path)
    made.start()
    yield made
    made.stop()


def test_a_commit_delivers_in_the_batch_it_comes_in_and_broken_records_have_no_state(stream: Stream) -> None:
    broken = _row(kind=OTHER_HALF_KIND, segment=-1, half_partition=3, offset=9, record_offset=9, reason="why")
    (row,) = stream.feed(0, half(1), half(70), broken)
    assert (row["kind"], row["reason"]) == (OutcomeKind.REJECT_RECORD, "why")
    assert (row["half_partition"], row["half_offset"]) == (3, 9)
    assert kinds(stream.feed(1_000, op(70, Event.COMMIT))) == [(OutcomeKind.DELIVER, "tx-70")]


def test_timers_check_at_the_interval_and_park_in_the_end(stream: Stream) -> None:
    stream.feed(0, half(1))
    assert stream.timer_slots == {(START_MS + 6_000) // TIMER_SLOT_MS}
    assert stream.feed(5_000) == []
    assert kinds(stream.feed(6_001)) == [(OutcomeKind.CHECK, "tx-1"), (OutcomeKind.STATUS, "tx-1")]
    assert kinds(stream.feed(7_000, op(1, Event.CHECK_UNKNOWN, 1))) == [(OutcomeKind.STATUS, "tx-1")]
    assert stream.feed(30_000) == []
    assert kinds(stream.feed(36_100)) == [(OutcomeKind.CHECK, "tx-1")]
    assert kinds(stream.feed(37_000, op(1, Event.CHECK_UNKNOWN, 2))) == [(OutcomeKind.STATUS, "tx-1")]
    assert kinds(stream.feed(66_200)) == [(OutcomeKind.PARK, "tx-1"), (OutcomeKind.STATUS_END, "tx-1")]


def test_state_and_timers_survive_a_restart(stream: Stream) -> None:
    stream.feed(123_456, half(1, value="dmFsdWU=", headers='[{"key":"a","value":"MQ=="}]'), op(2, Event.COMMIT))
    stream.stop()
    stream.start()
    assert kinds(stream.feed(124_456, half(2))) == [(OutcomeKind.DELIVER, "tx-2")]  # its op came before it
    (check, status) = sorted(stream.feed(129_457), key=lambda row: row["kind"])
    assert (check["kind"], check["value"]) == (OutcomeKind.CHECK, b"value")
    came = datetime.fromtimestamp((START_MS + 123_456) / 1000, UTC)
    assert datetime.fromtimestamp(check["ingested_ms"] / 1000, UTC) == came, "the time of the batch"
    assert check["headers"] == '[{"key":"a","value":"MQ=="}]'
    assert (status["kind"], status["half_offset"], status["attempt"]) == (OutcomeKind.STATUS, 1, 1)


def test_timers_that_are_not_allowed_come_later_and_a_batch_run_again_lets_the_same_ones_fire(stream: Stream) -> None:
    stream.stop()
    few = RunLimits(events=3, group_least=0)
    stream.start(limits=few)
    segments = range(6)
    stream.feed(0, *(half(64 * segment + at) for at in range(3) for segment in reversed(segments)))
    stream.dies = True
    with_rows = [op(64 * segment, Event.UNKNOWN, segment) for segment in (4, 1, 3)]
    with pytest.raises(Exception, match="the driver dies here"):
        stream.feed(6_001, *with_rows)  # both runs of Python have timers to let fire
    stream.dies = False
    number, first = stream.runs[-1]
    stream.start(limits=few)

    def checked() -> dict[int, list[str]]:
        """Of each batch, however often it was run."""
        found = {again: [row for row in made if row["kind"] == OutcomeKind.CHECK] for again, made in stream.runs}
        return {again: [row["transaction_id"] for row in made] for again, made in found.items()}

    every = sorted(f"tx-{64 * segment + at}" for at in range(3) for segment in segments)
    times = iter(range(6_001, 17_000, 1_000))
    while sum(map(len, checked().values())) < len(every):
        stream.feed(next(times))
    stream.feed(next(times))  # and none comes once more
    assert [made for again, made in stream.runs if again == number] == [first, first]
    assert sorted(name for names in checked().values() for name in names) == every
    assert max(map(len, checked().values())) <= 3 * 2 * STATE_PARTITIONS, "two runs in each state partition"


def test_a_clock_that_steps_back_loses_no_row(stream: Stream) -> None:
    stream.feed(100_000, half(1))
    stream.feed(90_000, half(2))
    delivered = [(OutcomeKind.DELIVER, "tx-1"), (OutcomeKind.DELIVER, "tx-2")]
    assert kinds(stream.feed(100_001, op(1, Event.COMMIT), op(2, Event.COMMIT, 1))) == delivered


def test_options_of_a_half_message_are_taken(stream: Stream) -> None:
    numbers = {"partition": 3, "immunity-ms": 1_000, "check-max": 7, "deliver-at": START_MS + 20_000}
    options = [(f"cb-{name}", b"%d" % number) for name, number in numbers.items()]
    stream.feed(0, half_with(1, *options), half_with(2, ("cb-check-max", b"0")))
    assert kinds(stream.feed(1_001)) == [(OutcomeKind.CHECK, "tx-1"), (OutcomeKind.STATUS, "tx-1")]
    check = next(row for row in stream.outcomes if row["kind"] == OutcomeKind.CHECK)
    assert (check["partition"], check["check_max"]) == (3, 7)
    ended = [(OutcomeKind.PARK, "tx-2"), (OutcomeKind.STATUS_END, "tx-1")]
    assert kinds(stream.feed(6_001, op(1, Event.CHECK_COMMIT))) == ended
    assert kinds(stream.feed(20_001)) == [(OutcomeKind.DELIVER, "tx-1")]


NOT_SEVERAL: list[tuple[bytes | None, int, str]] = [
    (None, 1, "Not a value of several messages"),
    (b"[]", 1, "Not a value of several messages"),
    (pack([Message("a", b"1")]), 2, "cb-messages says 2, its value holds 1"),
    (pack([Message("a", b"1"), Message("cb.op", b"1")]), 2, "a message's topic is one of Checkback's"),
    (pack([Message("a", b"1", headers=[("n" * 999, b"")])]).replace(b"nnn", b"cb-", 1), 1, "Header 'cb-nnn"),
]


def test_a_value_that_is_not_several_messages_is_rejected_whole(stream: Stream) -> None:
    def several(offset: int, value: bytes | None, count: int) -> dict[str, Any]:
        encoded = None if value is None else b64encode(value).decode()
        return half_with(offset, ("cb-messages", b"%d" % count), value=encoded)

    wrong = [several(at, value, count) for at, (value, count, _) in enumerate(NOT_SEVERAL)]
    outcomes = stream.feed(0, *wrong, several(9, pack([Message("a", b"1")]), 1), op(9, Event.COMMIT))
    *rejected, bundle = sorted(outcomes, key=lambda row: row["half_offset"])
    for at, (row, (value, _, reason)) in enumerate(zip(rejected, NOT_SEVERAL, strict=True)):
        assert (row["kind"], row["topic"]) == (OutcomeKind.REJECT_RECORD, "cb.half")
        assert (row["half_offset"], row["value"]) == (at, value)
        assert row["reason"].startswith(reason)
        assert len(row["reason"]) <= 300  # not again as long as the record
        names = [header["key"] for header in json.loads(row["headers"])]
        assert names == ["cb-id", "cb-group", "cb-topic", "cb-messages"]
    delivered = (OutcomeKind.DELIVER_BUNDLE, "tx-9", BUNDLE)
    assert (bundle["kind"], bundle["transaction_id"], bundle["partition"]) == delivered
