"""Whether records in our SDK's order keep the protocol, by column: a few ns a record where the rules take microseconds.

A row that is not vouched for here may still keep it. What is said of the others is what
:mod:`streaming.stateful.broken` says of each, which a test holds for any headers.
"""

from collections.abc import Callable, Collection
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from checkback.wire import protocol
from checkback.wire.lanes import LaneFact
from state import Event
from state.rows import NO_LANE, UNSETTLED_LANE, Column
from streaming.stateful.broken import OP_EVENTS, lawful_lane, wrong_group, wrong_topic

_COMMITS = [event for (action, _), event in OP_EVENTS.items() if action == protocol.Action.COMMIT]
Mask = npt.NDArray[np.bool_]
_OF_OURS = f'"key":"{protocol.RESERVED_PREFIX}'.encode()
_ACTIONS, _SOURCES = ([one.encode() for one in words] for words in (protocol.Action, protocol.Source))
_EVENTS = np.zeros((len(_ACTIONS) + 1, len(_SOURCES) + 1), np.uint8)
"""By the places of both words; the last ones are of words that there are not."""
for (_action, _source), _event in OP_EVENTS.items():
    _EVENTS[_ACTIONS.index(_action.encode()), _SOURCES.index(_source.encode())] = _event


class Vouched(NamedTuple):
    """Columns of a state's rows, and for which rows they hold."""

    columns: dict[str, Column]
    good: Mask


def vouched_halves(rows: pa.RecordBatch, own_topics: Collection[str]) -> Vouched:
    """Of half messages whose headers have no further one of ours, and a plain name each."""
    ids, good = _ids(rows.column("transaction_id"))
    groups, lawful_groups = _few_texts(rows.column("group"), lambda group: not wrong_group(group))
    topics, lawful_topics = _few_texts(rows.column("topic"), lambda topic: not wrong_topic(topic, own_topics))
    good &= lawful_groups & lawful_topics & _plain(rows.column("headers"))
    found = {"transaction_id": ids, "group": groups, "topic": topics}
    named = rows.column("source")
    if named.null_count == len(named):
        return Vouched(found, good)
    lanes, lawful_lanes = _few_texts(named, lambda lane: lane is None or lawful_lane(lane))
    states = np.where(named.is_null().to_numpy(zero_copy_only=False), NO_LANE, UNSETTLED_LANE)
    return Vouched({**found, "lane": states, "lane_name": lanes}, good & lawful_lanes)


def vouched_ops(rows: pa.RecordBatch, fact: LaneFact | None = None) -> Vouched:
    """Of ops that all say this of a lane."""
    ids, good = _ids(rows.column("transaction_id"))
    groups, lawful_groups = _few_texts(rows.column("group"), lambda group: not wrong_group(group))
    actions, sources = (rows.column(name).dictionary_encode() for name in ("topic", "source"))
    # not a table of all the different words: somebody may write thousands of each
    events = _EVENTS[_words(actions, _ACTIONS), _words(sources, _SOURCES)]
    names = {"action": _texts_of(actions), "source": _texts_of(sources)}
    good &= lawful_groups & (events > 0)
    if fact == LaneFact.DELIVERED:
        good &= np.isin(events, _COMMITS)
        events = np.full(rows.num_rows, Event.DELIVERED, dtype=np.uint8)
    names["settled"] = np.full(rows.num_rows, fact == LaneFact.SETTLED, dtype=np.int8)
    return Vouched({"transaction_id": ids, "group": groups, "event": events, **names}, good)


def _ids(column: pa.BinaryArray) -> tuple[Column, Mask]:
    sizes = pc.binary_length(column).fill_null(0).to_numpy()
    good = (sizes > 0) & (sizes <= protocol.MAX_ID_BYTES)
    try:
        return column.cast(pa.string()).to_numpy(zero_copy_only=False), good
    except pa.ArrowInvalid:  # one of them is not UTF-8
        texts = [_text(value) for value in column.to_pylist()]
        found = np.empty(len(texts), dtype=object)
        found[:] = texts
        return found, good & np.array([text is not None for text in texts], dtype=bool)


def _few_texts(column: pa.BinaryArray, lawful: Callable[[bytes | None], bool]) -> tuple[Column, Mask]:
    """A column with few different texts, each of which is looked at once."""
    encoded = column.dictionary_encode()
    good = np.array([lawful(value) for value in _values(encoded)], dtype=bool)
    return _texts_of(encoded), good[_places(encoded)]


def _values(encoded: pa.DictionaryArray) -> list[bytes | None]:
    """The different values; null, which the dictionary does not have, is the last one."""
    return [*encoded.dictionary.to_pylist(), None]


def _places(encoded: pa.DictionaryArray) -> npt.NDArray[np.int64]:
    indices = encoded.indices
    return (indices.fill_null(len(encoded.dictionary)) if indices.null_count else indices).to_numpy()


def _words(encoded: pa.DictionaryArray, known: list[bytes]) -> npt.NDArray[np.int64]:
    """The place of each row's word among those that are known; their number for another."""
    places: dict[bytes | None, int] = {word: at for at, word in enumerate(known)}
    of_values = np.array([places.get(value, len(known)) for value in _values(encoded)], dtype=np.int64)
    return of_values[_places(encoded)]


def _texts_of(encoded: pa.DictionaryArray) -> Column:
    texts = np.array([_text(value) for value in _values(encoded)], dtype=object)
    found: Column = texts[_places(encoded)]
    return found


def _text(value: bytes | None) -> str | None:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return None


def _plain(headers: pa.StringArray) -> Mask:
    """Whether names are ASCII, need no escape in JSON, and are none of ours. Values are base64, which has no ``-``."""
    count = len(headers)
    if headers.null_count == count or _all_plain(headers):
        return np.ones(count, dtype=bool)
    return np.array([text is None or _plain_bytes(text) for text in headers.cast(pa.binary()).to_pylist()], dtype=bool)


def _all_plain(headers: pa.StringArray) -> bool:
    offsets = np.frombuffer(headers.buffers()[1], np.int32)[headers.offset : headers.offset + len(headers) + 1]
    return _plain_bytes(bytes(memoryview(headers.buffers()[2])[offsets[0] : offsets[-1]]))


def _plain_bytes(spelled: bytes) -> bool:
    return b"\\" not in spelled and spelled.isascii() and _OF_OURS not in spelled
