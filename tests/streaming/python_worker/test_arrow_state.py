"""What stands in for PySpark's serializer of functions with state, held against PySpark's own."""

import inspect
import io
import json
from collections.abc import Iterable, Iterator
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark import worker
from pyspark.serializers import CPickleSerializer, SpecialLengths, read_int
from pyspark.sql.pandas.serializers import ApplyInPandasWithStateSerializer, ArrowStreamSerializer
from pyspark.sql.streaming.state import GroupState
from pyspark.sql.types import BinaryType, IntegerType, StringType, StructField, StructType

from checkback.exceptions import InputCutShortError
from streaming.python_worker import arrow_state
from streaming.python_worker.whole_input import watch_inputs

STATE = StructType([StructField("content", BinaryType())])
_NUMBER, _TEXT = StructField("half_partition", IntegerType()), StructField("topic", StringType())
GIVEN = StructType([_NUMBER, _TEXT, StructField("value", BinaryType())])
GIVEN_ARROW = pa.schema([("half_partition", pa.int32()), ("topic", pa.string()), ("value", pa.binary())])
IN = [("kind", pa.int32()), ("offset", pa.int64()), ("topic", pa.string()), ("value", pa.binary())]
TOLD = pa.struct(
    [
        *(("properties", pa.string()), ("keyRowAsUnsafe", pa.binary()), ("object", pa.binary())),
        *(("startOffset", pa.int32()), ("numRows", pa.int32()), ("isLastChunk", pa.bool_())),
    ]
)
# PySpark's serializers have no types
PICKLE: Any = CPickleSerializer()
SERIALIZER: Any = ApplyInPandasWithStateSerializer
NOTHING: Any = None
_read_int: Any = read_int

TEXTS = st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
BYTES = st.none() | st.binary(max_size=5)
ROWS = st.lists(st.tuples(st.integers(0, 2), st.integers(-(2**63), 2**63 - 1), TEXTS, BYTES))
"""Of a chunk: the columns of ``IN``."""
KEYS = st.lists(
    st.tuples(st.lists(ROWS.filter(bool), min_size=1, max_size=3), st.none() | st.binary(max_size=9), st.booleans()),
    max_size=5,
)
"""Of each key its chunks, its state, and whether its timer is due."""
PARTS = st.lists(st.tuples(st.integers(-(2**31), 2**31 - 1), TEXTS, BYTES), max_size=6)
ANSWERS = st.lists(st.tuples(st.lists(PARTS, max_size=3), st.none() | st.binary(max_size=9), st.integers(-1, 99)))
"""Of each key what the function yields, the state that it leaves, and its timer."""


def serializer(most: int = 10_000) -> Any:
    of_pandas = {"timezone": "UTC", "safecheck": True, "assign_cols_by_name": True, "prefer_int_ext_dtype": False}
    of_types = {"prefers_large_var_types": False, "int_to_decimal_coercion_enabled": False}
    return SERIALIZER(**of_pandas, **of_types, state_object_schema=STATE, arrow_max_records_per_batch=most)


def properties(*, defined: bool, timed_out: bool) -> dict[str, Any]:
    times = {"batchProcessingTimeMs": 5, "eventTimeWatermarkMs": 3, "timeoutTimestamp": 7}
    said = {"hasTimedOut": timed_out, "watermarkPresent": True, "updated": False, "removed": False}
    return {**times, **said, "timeoutConf": "EventTimeTimeout", "defined": defined}


def told(number: int, stored: bytes | None, *, timed_out: bool, at: tuple[int, int, bool]) -> dict[str, Any]:
    start, rows, last = at
    said = properties(defined=stored is not None, timed_out=timed_out)
    value = None if stored is None else PICKLE.dumps(STATE.toInternal((stored,)))
    told = {"properties": json.dumps(said), "keyRowAsUnsafe": b"key %d" % number, "object": value}
    return {**told, "startOffset": start, "numRows": rows, "isLastChunk": last}


def piped(keys: Iterable[Any], chunks_at_once: int) -> bytes:
    """As the JVM writes it: batches of some chunks, and a last column that says what they are."""
    flat = []
    for number, (chunks, stored, due) in enumerate(keys):
        flat += [(number, rows, stored, due, at == len(chunks) - 1) for at, rows in enumerate(chunks)]
    schema = pa.schema([*IN, ("told", TOLD)])
    stream = io.BytesIO()
    with pa.ipc.new_stream(stream, schema) as writer:
        for first in range(0, len(flat), chunks_at_once):
            rows: list[Any] = []
            states: list[Any] = []
            for number, chunk, stored, due, last in flat[first : first + chunks_at_once]:
                states.append(told(number, stored, timed_out=due, at=(len(rows), len(chunk), last)))
                rows += chunk
            columns = [pa.array([row[at] for row in rows], kind) for at, (_, kind) in enumerate(IN)]
            columns.append(pa.array(states + [None] * (len(rows) - len(states)), TOLD))
            writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=schema))
    return stream.getvalue()


def called(load: Any, wrap: Any, stream: bytes) -> list[Any]:
    """Key, rows and state of each call of the function, as PySpark's worker makes it."""
    calls: list[Any] = []

    def function(key: Any, chunks: Iterator[Any], state: GroupState) -> Iterator[Any]:
        rows: list[Any] = []
        for chunk in chunks:
            rows += (chunk if isinstance(chunk, pa.RecordBatch) else pa.RecordBatch.from_pandas(chunk)).to_pylist()
        calls.append((tuple(map(int, key)), rows, state.getOption, state._keyAsUnsafe, state.json()))
        return iter(())

    for data, state in load(serializer(), io.BytesIO(stream)):
        chunks = (one[0] for one in data)
        first = next(chunks)
        values = ([chunk[at] for at in (0, 1, 2, 3)] for chunk in [first, *chunks])
        ((given, _), _), *_ = wrap(function, GIVEN, None)([first[0], first[1]], values, state)
        list(given)
    return calls


def cleaned(calls: list[Any]) -> list[Any]:
    """Pandas has NaN for null in some columns, and no rows at all with a timer."""
    return [(key, [list(row.values()) for row in rows], *rest) for key, rows, *rest in calls]


@settings(max_examples=50)
@given(keys=KEYS, chunks_at_once=st.integers(1, 4))
def test_the_function_is_called_with_the_same(keys: list[Any], chunks_at_once: int) -> None:
    stream = piped(keys, chunks_at_once)
    theirs = called(ApplyInPandasWithStateSerializer.load_stream, worker.wrap_grouped_map_pandas_udf_with_state, stream)
    ours = called(arrow_state.load_stream, arrow_state.wrapped, stream)
    assert cleaned(ours) == cleaned(theirs)
    assert len(ours) == len(keys)


def answered(dump: Any, answers: list[Any], most: int, *, arrow: bool) -> list[Any]:
    """What the JVM reads: the type, and of each batch the rows and states that its counts say there are."""

    def results() -> Iterator[Any]:
        for number, (parts, left, timer) in enumerate(answers):
            said = properties(defined=False, timed_out=False)
            state = GroupState(NOTHING, keyAsUnsafe=b"key %d" % number, valueSchema=STATE, **said)

            def given(parts: Any = parts, left: Any = left, timer: Any = timer, state: Any = state) -> Iterator[Any]:
                for part in parts:
                    columns: list[Any] = list(zip(*part, strict=True)) if part else [[], [], []]
                    if arrow:
                        typed = zip(columns, GIVEN_ARROW.types, strict=True)
                        arrays = [pa.array(values, kind) for values, kind in typed]
                        yield pa.RecordBatch.from_arrays(arrays, schema=GIVEN_ARROW)
                    else:
                        yield pd.DataFrame(dict(zip(GIVEN.names, columns, strict=True)))
                if left is not None:
                    state.update((left,))
                if timer > 3:
                    state.setTimeoutTimestamp(timer)

            yield [((given(), state), GIVEN)]

    stream = io.BytesIO()
    dump(serializer(most), results(), stream)
    stream.seek(0)
    if not stream.getbuffer():
        return []
    assert _read_int(stream) == SpecialLengths.START_ARROW_STREAM
    reader = pa.ipc.open_stream(stream)
    found: list[Any] = [reader.schema]
    for batch in reader:
        counts, rows, states = (batch.column(at).to_pylist() for at in range(3))
        assert len({json.dumps(one) for one in counts}) == 1
        found.append((len(counts), rows[: counts[0]["dataCount"]], states[: counts[0]["stateCount"]], rows, states))
    return found


def unpickled(found: list[Any]) -> list[Any]:
    """States by value, since a pickle of the same value may be another one; and without what pads the columns."""
    batches = []
    for length, rows, states, *_ in found[1:]:
        values = [one["object"] and PICKLE.loads(one["object"]) for one in states]
        batches.append((length, rows, [{**one, "object": value} for one, value in zip(states, values, strict=True)]))
    return batches


@settings(max_examples=50)
@given(answers=ANSWERS, most=st.integers(1, 12))
def test_the_jvm_is_told_the_same(answers: list[Any], most: int) -> None:
    theirs = answered(ApplyInPandasWithStateSerializer.dump_stream, answers, most, arrow=False)
    ours = answered(arrow_state.dump_stream, answers, most, arrow=True)
    assert ours[:1] == theirs[:1]
    assert unpickled(ours) == unpickled(theirs)


def test_what_is_cut_short_anywhere_is_no_end_of_the_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ArrowStreamSerializer, "load_stream", ArrowStreamSerializer.load_stream)  # put back at the end
    watch_inputs()
    stream = piped([([[(0, 1, "t", b"v")]], None, False)] * 3, 1)
    assert len(called(arrow_state.load_stream, arrow_state.wrapped, stream)) == 3
    for length in range(0, len(stream), 8):
        with pytest.raises(InputCutShortError):
            called(arrow_state.load_stream, arrow_state.wrapped, stream[:length])


def test_pyspark_still_calls_what_is_replaced() -> None:
    assert "wrap_grouped_map_pandas_udf_with_state(func, return_type, runner_conf)" in inspect.getsource(worker)
    assert {"load_stream", "dump_stream"} <= vars(ApplyInPandasWithStateSerializer).keys()
