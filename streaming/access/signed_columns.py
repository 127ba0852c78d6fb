"""Records as their signatures have them, by columns: ``checkback.wire.signed_records``, for thousands at a time."""

from binascii import b2a_base64
from collections.abc import Callable, Iterator, Mapping
from itertools import groupby
from typing import NamedTuple, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from checkback.wire.signed_records import (
    CODE_BYTES,
    MOST_PLAIN_BYTES,
    MOST_SIGNATURE_BYTES,
    NOTHING,
    PLAIN,
    TIME_DIGITS,
    WINDOW_MS,
    WORDS,
    SigningKey,
    digests,
    spelled_string,
)
from state.rows import Column
from streaming.batch.headers import unpack_all

_TIME = f"^[0-9]{{1,{TIME_DIGITS}}}$"
_CODE_CHARACTERS, _DIGEST_BYTES, _PADDING = 24, 32, ord("=")
_PARTED = pa.scalar(b"", pa.binary())
MaySign = Callable[[str, bytes | None], Mapping[bytes, SigningKey]]
"""The keys that may sign what a source says of a producer group, by id."""


Spelled = tuple[pa.Array | bytes, ...]
"""binary[n], in pieces to be joined; bytes stand for all of them."""


class SignedColumns(NamedTuple):
    """Of *n* records what is signed, and what is said of it."""

    groups: Column
    """object[n], text."""
    sources: pa.Array
    """binary[n]; who ops say that they are of."""
    signatures: pa.Array
    """binary[n]; null: there is none."""
    times_ms: Column
    """int64[n], Kafka's."""
    ours: Spelled
    """``signed_records.spelled``."""
    contents: pa.Array
    """binary[n], ``signed_records.spelled_content``; null: it is not here."""

    def take(self, chosen: Column) -> "SignedColumns":
        """Those of these numbers."""
        at = pa.array(chosen)
        return SignedColumns(
            self.groups[chosen],
            self.sources.take(at),
            self.signatures.take(at),
            self.times_ms[chosen],
            tuple(one if isinstance(one, bytes) else one.take(at) for one in self.ours),
            self.contents.take(at),
        )

    def ours_of(self, number: int) -> bytes:
        """What is ours of one record."""
        return b"".join(one if isinstance(one, bytes) else one[number].as_py() for one in self.ours)


def surely_signed(records: SignedColumns, place: bytes, may_sign: MaySign) -> Column:
    """bool[n]: which are surely taken.

    Of the others ask ``Verifier.reason``. ``place``: ``signed_records.place_of``.
    """
    good = np.zeros(len(records.groups), dtype=bool)
    # sizes before splits: an array of 900 KB of blanks would take eight times as much
    modest = pc.less_equal(pc.binary_length(records.signatures), MOST_SIGNATURE_BYTES)
    words = pc.split_pattern(pc.if_else(modest, records.signatures, pa.scalar(None, pa.binary())), b" ")
    short = pc.less_equal(pc.binary_length(records.contents), MOST_PLAIN_BYTES)
    whole = pc.and_(pc.equal(pc.list_value_length(words), WORDS), short)
    numbers = np.flatnonzero(_true(whole))
    key_ids, times, codes = _parts(words if len(numbers) == len(good) else words.take(pa.array(numbers)))
    written = np.flatnonzero(_true(pc.match_substring_regex(times, _TIME)))
    if len(written) < len(numbers):
        numbers = numbers[written]
        key_ids, times, codes = (one.take(pa.array(written)) for one in (key_ids, times, codes))
    if len(numbers) < len(good):
        records = records.take(numbers)
    when = times.cast(pa.string()).cast(pa.int64()).to_numpy()
    in_time = np.abs(records.times_ms - when) <= WINDOW_MS
    signed = joined(place, *strings(key_ids), *strings(times), PLAIN, records.contents, *records.ours)
    found = _fitting(list(_keys(records, key_ids, may_sign)), signed.to_pylist(), codes)
    good[numbers] = in_time & found
    return good


def _keys(records: SignedColumns, key_ids: pa.Array, may_sign: MaySign) -> Iterator[SigningKey | None]:
    known: dict[tuple[str, bytes | None, bytes], SigningKey | None] = {}
    for asked in zip(records.groups.tolist(), records.sources.to_pylist(), key_ids.to_pylist(), strict=True):
        if asked not in known:
            known[asked] = may_sign(*asked[:2]).get(asked[2])
        yield known[asked]


def _fitting(keys: list[SigningKey | None], messages: list[bytes], codes: pa.Array) -> Column:
    """bool[n]: whose code is that of the message. All bytes of all are compared, so that no time tells which differ."""
    good = _true(pc.equal(pc.binary_length(codes), _CODE_CHARACTERS))
    good &= np.array([key is not None for key in keys], dtype=bool)
    if not good.all():
        numbers = np.flatnonzero(good)
        keys, messages = [keys[at] for at in numbers.tolist()], [messages[at] for at in numbers.tolist()]
        codes = codes.take(pa.array(numbers))
    known = cast("list[SigningKey]", keys)
    made = np.frombuffer(b"".join(digests(zip(known, messages, strict=True))), np.uint8).reshape(-1, _DIGEST_BYTES)
    padded = np.zeros((len(made), CODE_BYTES + 2), np.uint8)  # so that each has base64 of its own
    padded[:, :CODE_BYTES] = made[:, :CODE_BYTES]
    wanted = np.frombuffer(b2a_base64(padded.tobytes(), newline=False), np.uint8).reshape(-1, _CODE_CHARACTERS)
    said = np.frombuffer(b"".join(codes.to_pylist()), np.uint8).reshape(-1, _CODE_CHARACTERS)
    end = _CODE_CHARACTERS - 2
    good[good] = (wanted[:, :end] == said[:, :end]).all(axis=1) & (said[:, end:] == _PADDING).all(axis=1)
    return good


def spelled_headers(packed: pa.Array) -> pa.Array:
    """binary[n]: packed headers, string[n], as ``signed_records.spelled`` has them; empty for null."""
    counts, names, values = unpack_all(packed.to_pylist())
    spelled = joined(
        _netstrings(pa.array(names, pa.string()).cast(pa.binary())), _netstrings(pa.array(values, pa.binary()))
    )
    return pc.binary_join(pa.ListArray.from_arrays(np.cumsum([0, *counts], dtype=np.int32), spelled), b"")


def joined(*parts: pa.Array | bytes) -> pa.Array | pa.Scalar:
    """binary[n]: these behind one another; null where one is. A scalar where all are bytes."""
    merged = [
        one
        for fixed, run in groupby(parts, lambda part: isinstance(part, bytes))
        for one in ([pa.scalar(b"".join(run), pa.binary())] if fixed else run)
    ]
    return pc.binary_join_element_wise(*merged, _PARTED)


def strings(column: pa.Array) -> Spelled:
    """As netstrings: ``signed_records.spelled_string``."""
    if len(column) and column.null_count in {0, len(column)}:
        first = column[0].as_py()
        if first is None or pc.all(pc.equal(column, column[0])).as_py():
            return (spelled_string(first),)
        return _present(column)
    return (_netstrings(column),)


def named_strings(name: bytes, column: pa.Array) -> Spelled:
    """Behind a name, as netstrings; where there is none, not even the name."""
    if column.null_count == len(column):
        return ()
    return (pc.fill_null(joined(name, *_present(column)), pa.scalar(b"", pa.binary())),)


def _netstrings(column: pa.Array) -> pa.Array:
    return pc.fill_null(joined(*_present(column)), pa.scalar(NOTHING, pa.binary()))


def _present(column: pa.Array) -> Spelled:
    return texts(pc.binary_length(column)), b":", column, b","


def texts(numbers: pa.Array) -> pa.Array:
    """binary[n]: whole numbers in decimal."""
    return numbers.cast(pa.string()).cast(pa.binary())


def _parts(words: pa.Array) -> list[pa.Array]:
    flat = words.flatten()
    return [flat.take(pa.array(np.arange(at, len(flat), WORDS))) for at in range(WORDS)]


def _true(column: pa.Array) -> Column:
    found: Column = pc.fill_null(column, fill_value=False).to_numpy(zero_copy_only=False)
    return found
