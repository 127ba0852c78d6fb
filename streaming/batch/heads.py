"""What is written of a record that its topic does not take whole: its head, and a note of how large it was."""

from checkback.wire import protocol
from streaming.batch.headers import Headers
from streaming.batch.record import EMPTY_BATCH_BYTES, Record

HEAD_BYTES = 64 << 10
"""So much of a value is left, if there is room."""
KEY_HEAD_BYTES = HEADER_HEAD_BYTES = 1 << 10
NAME_HEAD_CHARACTERS = 256
HEADER_HEADS = 16
"""So many headers are left."""
_LENGTHS = 64
"""More than the lengths, times and offsets in front of a record, its key and its value take."""
_LENGTHS_OF_HEADER = 10


def head_of(record: Record, most: int, *, payload: bool = True) -> Record:
    """A record of which a batch of its own has at most ``most`` bytes, if that is room for its first headers at all.

    The headers that come first are there first. The last one says how large key, value and headers were; a record that
    was cut before keeps the note of that time. Without ``payload`` nothing is left but our own short headers.
    """
    note = next((value for name, value in record.headers if name == protocol.CUT), None) or sizes_of(record)
    key = record.key and record.key[:KEY_HEAD_BYTES]
    room = most - EMPTY_BATCH_BYTES - _LENGTHS - len(key or b"")
    room -= len(protocol.CUT) + len(note) + _LENGTHS_OF_HEADER
    headers: Headers = []
    for name, value in [pair for pair in record.headers if _stays(pair[0], payload=payload)][:HEADER_HEADS]:
        pair = name[:NAME_HEAD_CHARACTERS], value and value[:HEADER_HEAD_BYTES]
        size = len(pair[0].encode()) + len(pair[1] or b"") + _LENGTHS_OF_HEADER
        if size > room:
            break
        room -= size
        headers.append(pair)
    value = record.value and record.value[: max(0, min(room, HEAD_BYTES))] if payload else None
    return Record(record.topic, record.partition, key, value, [*headers, (protocol.CUT, note)])


def sizes_of(record: Record) -> bytes:
    """Bytes of key, value and headers, with a blank between two."""
    headers = sum(len(name.encode()) + len(value or b"") for name, value in record.headers)
    return b"%d %d %d" % (len(record.key or b""), len(record.value or b""), headers)


def _stays(name: str, *, payload: bool) -> bool:
    ours = name.startswith(protocol.RESERVED_PREFIX)
    return name != protocol.CUT and (payload or (ours and name not in {protocol.KEY, protocol.MESSAGES}))
