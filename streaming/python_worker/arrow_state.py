"""The state's Python worker on Arrow's columns, without pandas between: that was nine tenths of its time.

What stands in for PySpark's own reads and writes the same streams, so the JVM sees no difference. Three pieces of
PySpark 4.2 are replaced, which the distribution is bound to:

1. ``ApplyInPandasWithStateSerializer.load_stream``: chunks of a key's rows, with its state;
2. ``worker.wrap_grouped_map_pandas_udf_with_state``: the call of the function, with Arrow record batches;
3. ``ApplyInPandasWithStateSerializer.dump_stream``: what the function gives, and the states that it changed.

``tests/streaming/python_worker/test_arrow_state.py`` holds both against PySpark's own, on generated batches.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from itertools import groupby
from typing import IO, Any, NamedTuple

import numpy as np
import pyarrow as pa
from pyspark import worker
from pyspark.sql.pandas.serializers import ApplyInPandasWithStateSerializer, ArrowStreamSerializer
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.streaming.state import GroupState
from pyspark.sql.types import StructType


class _NamedColumn(NamedTuple):
    """A column of a chunk: PySpark picks those of the key and of the value by their number."""

    name: str
    values: pa.Array


def use_arrow_for_states() -> None:
    """Have this process, and those that are forked from it, give functions with state Arrow record batches.

    Such a function gets, and yields, ``pyarrow.RecordBatch`` where PySpark's has a pandas frame.
    """
    serializer: Any = ApplyInPandasWithStateSerializer
    serializer.load_stream, serializer.dump_stream = load_stream, dump_stream
    worker.wrap_grouped_map_pandas_udf_with_state = wrapped  # PySpark has no other way in


def wrapped(function: Callable[..., Any], return_type: StructType, _configuration: Any) -> Callable[..., Any]:
    """The function as PySpark's worker calls it: with a key's columns, its chunks, and its state."""

    def call(
        key: list[_NamedColumn], chunks: Iterable[list[_NamedColumn]], state: GroupState
    ) -> tuple[Any, GroupState]:
        values = tuple(column.values[0].as_py() for column in key)
        # one chunk comes with a timer that is due, too: of a row that nobody wrote
        batches = iter(()) if state.hasTimedOut else map(_batch_of, chunks)
        return function(values, batches, state), state

    return lambda key, chunks, state: [(call(key, chunks, state), return_type)]


def _batch_of(chunk: list[_NamedColumn]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([column.values for column in chunk], names=[column.name for column in chunk])


def load_stream(self: Any, stream: IO[bytes]) -> Iterator[tuple[Any, GroupState]]:
    """The chunks of each key, and its state; what feeds this stream is read as it is asked for."""
    chunks = _chunks(self, ArrowStreamSerializer.load_stream(self, stream))
    for state, of_key in groupby(chunks, key=lambda chunk: chunk[1]):
        yield of_key, state


def _chunks(serializer: Any, batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[list[_NamedColumn], GroupState]]:
    """Each batch has the rows of several keys behind one another, and a last column that says where each begins."""
    current: GroupState | None = None
    for batch in batches:
        names = batch.schema.names[:-1]
        for told in batch.column(batch.num_columns - 1).to_pylist():
            if told is None or told["numRows"] is None:  # no more keys in this batch
                break
            state = current if current is not None else _state_of(serializer, told)
            current = None if told["isLastChunk"] else state
            rows = batch.slice(told["startOffset"], told["numRows"])
            yield list(map(_NamedColumn, names, rows.columns)), state


def _state_of(serializer: Any, told: dict[str, Any]) -> GroupState:
    stored = told["object"]
    value = serializer.pickleSer.loads(stored) if stored else None
    properties = {**json.loads(told["properties"]), "optionalValue": value}
    return GroupState(keyAsUnsafe=told["keyRowAsUnsafe"], valueSchema=serializer.state_object_schema, **properties)


def dump_stream(self: Any, iterator: Iterable[Any], stream: IO[bytes]) -> None:
    """Write what the function gives, and each state once all that it gives of its key is written."""
    batches = self._write_stream_start(_written(self, iterator), stream)
    ArrowStreamSerializer.dump_stream(self, batches, stream)


def _written(serializer: Any, iterator: Iterable[Any]) -> Iterator[pa.RecordBatch]:
    part, return_type = _AnswerBatch(serializer), StructType()
    for ((given, state), return_type), *_ in iterator:
        for rows in given:
            if rows.num_rows:
                part.rows.append(rows)
                part.count += rows.num_rows
                if part.count > serializer.arrow_max_records_per_batch:
                    yield part.batch(return_type)
                    part = _AnswerBatch(serializer)
        part.states.append(state)  # now that the function has ended, and changed it
    if part.count or part.states:
        yield part.batch(return_type)


class _AnswerBatch:
    """What becomes one batch of the answer: counts, rows and states, three structs side by side."""

    def __init__(self, serializer: Any) -> None:
        self._serializer = serializer
        self.rows: list[pa.RecordBatch] = []
        self.count = 0
        self.states: list[GroupState] = []

    def batch(self, return_type: StructType) -> pa.RecordBatch:
        """All columns have one length, the longest one's; what is missing is null, and the counts say so."""
        kind = _arrow_type(return_type)
        length = max(1, self.count, len(self.states))
        counts = [pa.array(np.full(length, number, np.int32)) for number in (self.count, len(self.states))]
        count_type = self._serializer.result_count_pdf_arrow_type
        structs = [
            pa.StructArray.from_arrays(counts, fields=list(count_type)),
            _struct(self._outcomes(kind), kind, length),
            _struct(self._states(), self._serializer.result_state_pdf_arrow_type, length),
        ]
        return pa.RecordBatch.from_arrays(structs, names=["_0", "_1", "_2"])

    def _outcomes(self, kind: pa.StructType) -> list[pa.Array]:
        if not self.rows:
            return [pa.nulls(0, field.type) for field in kind]
        if len(self.rows) == 1:
            return list(self.rows[0].columns)
        columns = zip(*(rows.columns for rows in self.rows), strict=True)
        return [pa.concat_arrays(column) for column in columns]

    def _states(self) -> list[pa.Array]:
        dumps = self._serializer.pickleSer.dumps
        rows = [
            (
                state.json(),
                state._keyAsUnsafe,  # noqa: SLF001  (PySpark's serializer reads it so)
                dumps(state._value_schema.toInternal(state._value)) if state.exists else None,  # noqa: SLF001  (likewise)
                state.oldTimeoutTimestamp,
            )
            for state in self.states
        ]
        kinds = [field.type for field in self._serializer.result_state_pdf_arrow_type]
        return [pa.array([row[at] for row in rows], kind) for at, kind in enumerate(kinds)]


def _struct(columns: list[pa.Array], kind: pa.StructType, length: int) -> pa.StructArray:
    def filled(column: pa.Array, field: pa.Field) -> pa.Array:
        missing = length - len(column)
        return pa.concat_arrays([column, pa.nulls(missing, field.type)]) if missing else column

    return pa.StructArray.from_arrays(list(map(filled, columns, kind)), fields=list(kind))


@cache
def _arrow_type(return_type: StructType) -> pa.StructType:
    return to_arrow_type(return_type, timezone="UTC")
