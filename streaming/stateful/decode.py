"""Kafka records to the columns of ``state``, as expressions that run inside the JVM.

Our own SDK writes its headers first and in one order, which is read by position; anything else that keeps the
protocol takes the slower way through a map. What breaks the protocol becomes a row with a reason.
"""

from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  (as everybody calls it)

from checkback.wire import limits, protocol
from checkback.wire.protocol import Topics
from state import Event
from state.content import KEPT_BYTES, SHUFFLED_BYTES
from streaming.batch.heads import HEAD_BYTES, HEADER_HEAD_BYTES, HEADER_HEADS, KEY_HEAD_BYTES, NAME_HEAD_CHARACTERS
from streaming.stateful.broken import OPTIONS, Ends, beyond, broken_reason, size_rules

CLOCK_PARTITION = -1
NO_SEGMENT = -1
"""Key of rows that belong to no segment: the clock's, and records that break the protocol."""

INGEST_TIME = "ingest_time"

HALF_KIND, OP_KIND, BROKEN_KIND, CLOCK_KIND = range(4)

COLUMNS = {
    "half_partition": "int",
    "segment": "long",
    "kind": "tinyint",
    "offset": "long",  # of the half message; of the record itself when that is broken
    "op_offset": "long",
    "time_ms": "long",  # its record's
    "event": "tinyint",  # of an op, and of a half message: what it says of itself
    "transaction_id": "string",
    "group": "string",
    "topic": "string",  # real topic of a half message, action of an op, own topic of a broken record
    "source": "string",
    "key": "binary",
    "value": "binary",
    "headers": "string",
    "left_out": "long",  # of a half message: bytes of its content that are set aside; -1: none are
    "options": "string",  # of a half message: what OPTIONS names, with commas between; null when none is given
    "reason": "string",
}
"""Columns of the decoded frame and their Spark types, before the ingest time."""

HELD_OPTION = "1"
"""Stands behind these of a half message that the job wrote, and of no other: its headers may be set aside."""

_HALF_ORDER = (protocol.ID, protocol.GROUP, protocol.TOPIC)
_OP_ORDER = (protocol.ID, protocol.GROUP, protocol.HALF, protocol.ACTION, protocol.SOURCE)
_MOST = 2_147_483_647
_NAME_SEPARATOR = "\x00"
_REPLACED = "\ufffd"
"""What Java makes of bytes that are not UTF-8."""


def decode(records: DataFrame, topics: Topics, segment_size: int, ends: Ends | None = None) -> DataFrame:
    """Decode records of the half and the op topic.

    Args:
        records: what Spark's Kafka source gives with ``includeHeaders``.
        topics: names of the two topics.
        segment_size: offsets in a segment, a power of two.
        ends: an op that names a place from there on is broken. It would get a segment of its own, which costs the batch
            a call of Python (8 to 20 ms) only to be rejected there.

    Returns:
        ``COLUMNS``, one row for each record; none is lost and none raises.
    """
    is_half = F.col("topic") == topics.half
    names = F.array_join(F.col("headers")["key"], _NAME_SEPARATOR)
    read = records.select(
        *("topic", "partition", "key", "value", "headers"),
        F.col("offset"),
        F.unix_millis("timestamp").alias("time_ms"),
        is_half.alias("is_half"),
        F.when(is_half, _in_order(_HALF_ORDER, names)).otherwise(_in_order(_OP_ORDER, names)).alias("in_order"),
        (_count(names, _NAME_SEPARATOR) != F.size("headers") - 1).alias("zero_in_name"),
        *_sizes(names),
        (F.locate(_REPLACED, names) > 0).alias("replaced_in_name"),
    )
    # Only for records that are not in our SDK's order. No lambda here, nor anywhere in this module: it would take
    # the whole step out of Spark's code generation, and each task would then write Java code again (30 ms).
    read = read.withColumn("found", F.when(~F.col("in_order"), F.map_from_entries("headers")))
    return _checked(_fields(read), topics, segment_size, ends)


def clock_rows(ticks: DataFrame) -> DataFrame:
    """Rows that say nothing but that time passes, in the shape of :func:`decode`."""
    values: dict[str, object] = {
        **dict.fromkeys(COLUMNS),
        "half_partition": CLOCK_PARTITION,
        "segment": NO_SEGMENT,
        # not a constant: see streaming.query, which must not find one here
        "kind": F.lit(CLOCK_KIND) + F.col("value") - F.col("value"),
    }
    return ticks.select(*(F.lit(values[name]).cast(kind).alias(name) for name, kind in COLUMNS.items()))


def _in_order(names: tuple[str, ...], all_names: Column) -> Column:
    """Whether headers begin with just these, and no later one is ours."""
    prefix = _NAME_SEPARATOR.join(names)
    at = [F.get("headers", index)["key"] == name for index, name in enumerate(names)]
    another = F.locate(f"{_NAME_SEPARATOR}{protocol.RESERVED_PREFIX}", all_names, len(prefix) + 1)
    found = reduce(Column.__and__, at) & (another == 0)
    if names is _OP_ORDER:  # an op with further headers is kept whole, should it be rejected
        found &= F.size("headers") == len(names)
    return F.coalesce(found, F.lit(False))  # noqa: FBT003  (that is its signature)


def _fields(read: DataFrame) -> DataFrame:
    def header(name: str, half_place: int | None, op_place: int | None) -> Column:
        def at(place: int | None) -> Column:
            return F.lit(None).cast("binary") if place is None else F.get("headers", place)["value"]

        by_place = (
            at(half_place)
            if half_place == op_place
            else F.when(F.col("is_half"), at(half_place)).otherwise(at(op_place))
        )
        return F.when(F.col("in_order"), by_place).otherwise(F.col("found")[name])

    def optional(name: str) -> Column:
        return F.col("found")[name].cast("string")

    repeated = _count_of_ours(F.col("headers")["key"]) != _count_of_ours(F.map_keys("found"))
    return read.select(
        *("topic", "partition", "offset", "time_ms", "key", "value", "headers", "is_half", "in_order", "zero_in_name"),
        *("key_bytes", "value_bytes", "header_bytes", "replaced_in_name"),
        F.when(~F.col("in_order"), repeated).alias("repeated"),
        header(protocol.ID, 0, 0).alias("id"),
        header(protocol.GROUP, 1, 1).alias("group"),
        header(protocol.TOPIC, 2, None).alias("real_topic"),
        header(protocol.HALF, None, 2).cast("string").alias("half"),
        header(protocol.ACTION, None, 3).cast("string").alias("action"),
        header(protocol.SOURCE, None, 4).cast("string").alias("source"),
        optional(protocol.HEADER_VERSION).alias("version"),
        optional(protocol.HELD).alias("held"),
        *(optional(name).alias(name) for name in OPTIONS),
    )


def _sizes(names: Column) -> tuple[Column, ...]:
    """Bytes of key, value, and all headers' names and values together."""
    contents = F.array_join(F.col("headers")["value"].cast("array<string>"), "")  # bytes stay what they are
    separators = F.size("headers") - 1
    headers = F.octet_length(names) - separators + F.octet_length(contents)
    return (
        F.coalesce(F.octet_length("key"), F.lit(0)).alias("key_bytes"),
        F.coalesce(F.octet_length("value"), F.lit(0)).alias("value_bytes"),
        F.when(F.size("headers") > 0, headers).otherwise(0).alias("header_bytes"),
    )


def _count_of_ours(names: Column) -> Column:
    """How many names are reserved for the protocol."""
    text = F.concat(F.lit(_NAME_SEPARATOR), F.array_join(names, _NAME_SEPARATOR))
    return _count(text, f"{_NAME_SEPARATOR}{protocol.RESERVED_PREFIX}")


def _count(text: Column, mark: str) -> Column:
    """How often a mark is in a text; its first character is in no other place of the mark."""
    return F.length(text) - F.length(F.replace(text, F.lit(mark), F.lit(mark[1:])))


def _checked(fields: DataFrame, topics: Topics, segment_size: int, ends: Ends | None) -> DataFrame:
    rows = fields.select(
        "*",
        F.substring_index("half", ":", 1).cast("int").alias("named_partition"),
        F.substring_index("half", ":", -1).cast("long").alias("named_offset"),
    )
    too_large = [F.when(wrong, F.lit(reason)) for wrong, reason in size_rules()]
    rows = rows.select("*", F.coalesce(*too_large).alias("too_large"))
    rows = rows.select(
        "*",
        F.coalesce("too_large", broken_reason(topics), *beyond(ends)).alias("reason"),
        F.when(F.col("is_half"), F.col("offset")).otherwise(F.col("named_offset")).alias("half_offset"),
    )
    broken = F.col("reason").isNotNull()
    is_half = F.col("is_half")
    segment = F.shiftright("half_offset", segment_size.bit_length() - 1)
    # An op in the five headers that every op has can be written again from its columns; any other is kept whole.
    application = F.slice("headers", len(_HALF_ORDER) + 1, _MOST)
    kept = (
        F.when(F.col("too_large").isNotNull(), _head_of_headers())
        .when(broken | ~F.col("in_order"), F.col("headers"))
        .when(is_half, application)
    )
    # See state.content. Of these only the size continues from here.
    aside = is_half & ~broken & (_content_bytes() > SHUFFLED_BYTES)
    headers_aside = aside & (F.col("key_bytes") + F.col("header_bytes") > KEPT_BYTES)
    key_aside = headers_aside & (F.col("key_bytes") > KEPT_BYTES)
    given = [F.col(f"`{name}`") for name in OPTIONS]
    spelled = [F.coalesce(column, F.lit("")) for column in given]
    spelled.append(F.when(F.col("held").isNotNull(), F.lit(HELD_OPTION)))  # else null, which concat_ws leaves out
    values = {
        "half_partition": F.col("partition"),
        "segment": F.when(broken, NO_SEGMENT).otherwise(segment),
        "kind": F.when(broken, BROKEN_KIND).when(is_half, HALF_KIND).otherwise(OP_KIND),
        "offset": F.when(broken, F.col("offset")).otherwise(F.col("half_offset")),
        "op_offset": F.col("offset"),
        "time_ms": F.coalesce("time_ms", F.lit(-1)),
        "event": _event(),
        "transaction_id": F.when(~broken, F.col("id").cast("string")),
        "group": F.when(~broken, F.col("group").cast("string")),
        "topic": F.when(broken, F.col("topic"))
        .when(is_half, F.col("real_topic").cast("string"))
        .otherwise(F.col("action")),
        "source": F.when(~broken, F.col("source")),
        "key": F.when(~key_aside, _bounded("key", KEY_HEAD_BYTES)),
        "value": F.when(~aside, _bounded("value", HEAD_BYTES)),
        "headers": F.when(~headers_aside & (F.size(kept) > 0), F.to_json(kept)),
        "left_out": F.when(key_aside, _content_bytes())
        .when(headers_aside, F.col("header_bytes") + F.col("value_bytes"))
        .when(aside, F.col("value_bytes"))
        .otherwise(-1),
        # a broken record's may be no UTF-8, which Arrow does not take
        "options": F.when(
            ~broken & is_half & ~F.col("in_order") & F.coalesce(*given, F.col("held")).isNotNull(),
            F.concat_ws(",", *spelled),
        ),
        "reason": F.col("reason"),
    }
    return rows.select(*(values[name].cast(kind).alias(name) for name, kind in COLUMNS.items()))


def _content_bytes() -> Column:
    return F.col("key_bytes") + F.col("value_bytes") + F.col("header_bytes")


def _bounded(name: str, head: int) -> Column:
    """A record's key or value: its head when the record is too large; of an op's, which are for people, a little."""
    column = F.col(name)
    remark = F.col("reason").isNull() & ~F.col("is_half") & (F.col(f"{name}_bytes") > limits.MAX_REMARK_BYTES)
    return (
        F.when(F.col("too_large").isNotNull(), F.substring(name, 1, head))
        .when(remark, F.substring(name, 1, limits.MAX_REMARK_BYTES))
        .otherwise(column)
    )


def _head_of_headers() -> Column:
    """The note of a record's sizes, and the heads of its first headers: see ``streaming.batch.heads``."""
    sizes = F.concat_ws(" ", *(F.col(f"{name}_bytes").cast("string") for name in ("key", "value", "header")))
    note = F.struct(F.lit(protocol.CUT).alias("key"), sizes.cast("binary").alias("value"))
    heads = [
        F.struct(
            F.substring(F.get("headers", at)["key"], 1, NAME_HEAD_CHARACTERS).alias("key"),
            F.substring(F.get("headers", at)["value"], 1, HEADER_HEAD_BYTES).alias("value"),
        )
        for at in range(HEADER_HEADS)
    ]
    there = F.least(F.coalesce(F.size("headers"), F.lit(0)), F.lit(HEADER_HEADS))
    return F.concat(F.array(note), F.slice(F.array(*heads), F.lit(1), F.greatest(there, F.lit(0))))


_EVENTS = {
    (protocol.Action.COMMIT, protocol.Source.PRODUCER): Event.COMMIT,
    (protocol.Action.COMMIT, protocol.Source.CHECK): Event.CHECK_COMMIT,
    (protocol.Action.COMMIT, protocol.Source.OPERATOR): Event.OPERATOR_COMMIT,
    (protocol.Action.ROLLBACK, protocol.Source.PRODUCER): Event.ROLLBACK,
    (protocol.Action.ROLLBACK, protocol.Source.CHECK): Event.CHECK_ROLLBACK,
    (protocol.Action.ROLLBACK, protocol.Source.OPERATOR): Event.OPERATOR_ROLLBACK,
    (protocol.Action.UNKNOWN, protocol.Source.PRODUCER): Event.UNKNOWN,
    (protocol.Action.UNKNOWN, protocol.Source.CHECK): Event.CHECK_UNKNOWN,
    (protocol.Action.UNKNOWN, protocol.Source.OPERATOR): Event.UNKNOWN,
    (protocol.Action.UNREACHABLE, protocol.Source.CHECK): Event.CHECK_UNREACHABLE,
    (protocol.Action.RESUME, protocol.Source.OPERATOR): Event.RESUME,
    (protocol.Action.REDELIVER, protocol.Source.OPERATOR): Event.REDELIVER,
}
"""What an op says and who says it; other pairs break the protocol."""

_HALF_EVENTS = {protocol.HalfAction.COMMIT: Event.HALF_COMMIT, protocol.HalfAction.PARK: Event.HALF_PARK}


def _event() -> Column:
    action, source = F.col("action"), F.col("source")
    known = (F.when((action == said) & (source == by), int(event)) for (said, by), event in _EVENTS.items())
    of_itself = (F.when(action == said, int(event)) for said, event in _HALF_EVENTS.items())
    return F.when(F.col("is_half"), F.coalesce(*of_itself, F.lit(int(Event.HALF)))).otherwise(
        F.coalesce(*known, F.lit(0))
    )
