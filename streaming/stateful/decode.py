"""Kafka records to columns, as expressions that run inside the JVM.

Spark plans them anew for each batch, and runs them for each record: what can be judged elsewhere is judged in Python,
by column (:mod:`streaming.stateful.arrivals`). Here is what has to be known before records are shuffled: which segment
a record belongs to, and that what is too large goes no further.

Our own SDK writes its headers first and in one order, which is read by position, and a signature last. Of any other
record all headers continue from here.
"""

from collections.abc import Callable
from functools import reduce
from itertools import count
from operator import and_
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  (as everybody calls it)

from checkback.wire import limits, protocol
from checkback.wire.lanes import LaneFact
from checkback.wire.protocol import Topics
from state.content import KEPT_BYTES, SHUFFLED_BYTES
from streaming.batch.heads import HEAD_BYTES, HEADER_HEAD_BYTES, HEADER_HEADS, KEY_HEAD_BYTES, NAME_HEAD_CHARACTERS
from streaming.stateful.broken import REPLACED

CLOCK_PARTITION = -1
NO_SEGMENT = -1
"""Key of rows that belong to no segment: the clock's, and records that are known to break the protocol."""

INGEST_TIME = "ingest_time"

HALF_KIND, OP_KIND, OTHER_HALF_KIND, OTHER_OP_KIND, LARGE_HALF_KIND, CLOCK_KIND = range(6)
"""The other ones are not in our SDK's order, or name no place, or are too large. Of a large half message, which is not
too large, what headers come along is for its judgement only."""
FACT_KINDS = {LaneFact.DELIVERED: 6, LaneFact.SETTLED: 7}
"""Of ops in our SDK's order that say so of a lane."""

COLUMNS = {
    "half_partition": "int",
    "segment": "long",
    "kind": "tinyint",
    "offset": "long",  # of the half message; -1: the op names none
    "record_offset": "long",  # of the record itself
    "time_ms": "long",  # its record's
    "transaction_id": "binary",  # this and the next three as written, and only of records in our SDK's order
    "group": "binary",
    "topic": "binary",  # real topic of a half message, action of an op
    "source": "binary",  # of a half message: the lane it names
    "key": "binary",
    "value": "binary",
    "headers": "string",  # of a record in our SDK's order those that follow, else all
    "signature": "binary",  # of a record in our SDK's order that is signed
    "left_out": "long",  # of a half message: bytes of its value where that is set aside; -1: it is not. Of a large one
    # also those of the headers, and of a key that is not here
    "reason": "string",  # why only the head of this record is here
}
"""Columns of the decoded frame and their Spark types, before the ingest time."""

HALF_ORDER = (protocol.ID, protocol.GROUP, protocol.TOPIC)
"""A lane may be named behind them."""
OP_ORDER = (protocol.ID, protocol.GROUP, protocol.HALF, protocol.ACTION, protocol.SOURCE)
"""What is known of a lane may be said behind them."""
_BY_PLACE = len(OP_ORDER) + 1
_LANE, _FACT = f"header_{len(HALF_ORDER)}", f"header_{len(OP_ORDER)}"
Ends = Callable[[Column], Column]
"""Of a half partition, where it ends as far as the batch knows; null where it does not."""

_NO_OFFSET = 10**protocol.MAX_OFFSET_DIGITS
_MODEST_BYTES = 1_000
_NAME_BYTES = 64
"""Our own names are shorter."""
_HEADER = "struct<key: string, value: binary>"
_NUMBERS = count(1)
"""Of variables; Spark gives them others when it makes the plan, so that the generated code stays the same."""


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
    read = records.select(
        *("partition", "offset", "key", "value", "headers"),
        F.unix_millis("timestamp").alias("time_ms"),
        is_half.alias("is_half"),
        *(F.get("headers", at).alias(f"header_{at}") for at in range(_BY_PLACE)),
        F.get("headers", F.size("headers") - 1).alias("last_header"),
    )
    # a null one counts as absent, and stays among the others: who writes it twice has it rejected
    signed = (F.col("last_header")["key"] == protocol.SIGNATURE) & F.col("last_header")["value"].isNotNull()
    signed = F.coalesce(signed, F.lit(False))  # noqa: FBT003  (as below)
    read = read.select("*", signed.alias("signed"))
    read = read.select("*", (F.size("headers") - F.when(F.col("signed"), 1).otherwise(0)).alias("unsigned_headers"))
    # No lambda here, nor anywhere in this module: it would take the whole step out of Spark's code generation, and
    # each task would then write Java code again (30 ms).
    read = read.select("*", _in_order().alias("in_order"))
    read = read.select("*", _modest().alias("modest"), _named_half().alias("half"))
    read = read.select(
        "*",
        F.when(~F.col("modest"), _header_bytes()).alias("header_bytes"),
        F.substring_index("half", ":", -1).cast("long").alias("named_offset"),
    )
    read = read.select(
        "*",
        F.when(~F.col("modest"), _too_large()).alias("reason"),
        F.when(F.col("is_half"), F.col("offset")).when(_may_be(ends), F.col("named_offset")).alias("half_offset"),
    )
    whole_half = F.col("is_half") & F.col("reason").isNull()
    # See state.content. Content is set aside also where the record is rejected, and then read again.
    large = (_bytes("key") > SHUFFLED_BYTES) | (F.col("header_bytes") > SHUFFLED_BYTES)
    large = ~F.col("modest") & whole_half & large & _readable_again()
    read = read.select("*", F.coalesce(large, F.lit(False)).alias("large"))  # noqa: FBT003  (as below)
    plain = F.col("in_order") & F.col("half_offset").isNotNull() & F.col("reason").isNull() & ~F.col("large")
    aside = F.col("large") | (whole_half & (_bytes("value") > SHUFFLED_BYTES) & _readable_again())
    read = read.select("*", plain.alias("plain"), aside.alias("aside"))
    return _columns(read.select("*", _kept_headers(read.sparkSession).alias("kept")), segment_size)


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


def _in_order() -> Column:
    """Whether headers begin as our SDK writes them; an op has no others, else it is kept whole if it is rejected."""
    facts = [fact.header for fact in FACT_KINDS]

    def named(order: tuple[str, ...], first: int) -> Column:
        return reduce(and_, [F.col(f"header_{at}")["key"] == order[at] for at in range(first, len(order))])

    of_lane = F.col(_FACT)["key"].isin([name for name, _ in facts]) & (F.col(_FACT)["value"] == F.lit(facts[0][1]))
    size = F.col("unsigned_headers")
    of_op = ((size == len(OP_ORDER)) | ((size == len(OP_ORDER) + 1) & of_lane)) & named(OP_ORDER, 2)
    found = named(HALF_ORDER[:2], 0) & F.when(F.col("is_half"), named(HALF_ORDER, 2)).otherwise(of_op)
    return F.coalesce(found, F.lit(False))  # noqa: FBT003  (that is its signature)


def _modest() -> Column:
    """Whether a record cannot be too large, which can be said of most without adding up all headers (0.4 µs)."""
    by_place = [F.col(f"header_{at}") for at in range(_BY_PLACE)]
    sizes = [F.octet_length(header["value"]) for header in by_place]
    sizes += [F.octet_length(header["key"]) for header in by_place[len(HALF_ORDER) :]]
    sizes += [F.octet_length(F.col("last_header")["value"])]
    few = (F.col("unsigned_headers") <= len(by_place)) & (F.greatest(*sizes) <= _MODEST_BYTES)
    content = (_bytes("value") <= limits.MAX_VALUE_BYTES) & (_bytes("key") <= SHUFFLED_BYTES)
    return F.coalesce(F.col("in_order") & few & content, F.lit(False))  # noqa: FBT003  (that is its signature)


def _bytes(name: str) -> Column:
    return F.coalesce(F.octet_length(name), F.lit(0))


def _header_bytes() -> Column:
    """Of all headers' names and values together."""
    values = F.col("headers")["value"].cast("array<string>")  # bytes stay what they are
    return F.octet_length(F.concat_ws("", F.col("headers")["key"], values))


def _readable_again() -> Column:
    """Whether the sink's client can read a record again: of one with such a name, which is rejected, it cannot."""
    names = F.concat_ws("", F.col("headers")["key"])
    return (F.locate("\0", names) == 0) & (F.locate(REPLACED, names) == 0)


def _named_half() -> Column:
    """What an op says in its ``cb-half``."""
    by_place = F.col("header_2")["value"]
    found = F.when(F.col("in_order"), by_place).otherwise(F.map_from_entries("headers")[protocol.HALF])
    return F.when(~F.col("is_half"), found.cast("string"))


def _may_be(ends: Ends | None) -> Column:
    """Whether an op names a place where its half message may be: spelled as it should be, and before the end."""
    spelled = F.concat(F.col("partition").cast("string"), F.lit(":"), F.col("named_offset").cast("string"))
    most = F.lit(_NO_OFFSET) if ends is None else F.least(ends(F.col("partition")), F.lit(_NO_OFFSET))
    return (F.col("half") == spelled) & F.col("named_offset").between(0, most - 1)


def _too_large() -> Column:
    """What no record may exceed; of one that does only the head continues from here."""
    held = F.map_from_entries("headers")[protocol.HELD].isNotNull()
    spare = F.when(held, limits.HELD_SPARE).otherwise(1)
    return (
        F.when(F.octet_length("value") > limits.MAX_VALUE_BYTES, "its value is larger than 16 MiB")
        .when(F.octet_length("key") > limits.MAX_KEY_BYTES, "its key is larger than 1 MiB")
        .when(F.col("unsigned_headers") > limits.MAX_HEADERS * spare, "it has more than 1,000 headers")
        .when(F.col("header_bytes") > limits.MAX_HEADER_BYTES * spare, "its headers are larger than 1 MiB together")
    )


def _columns(read: DataFrame, segment_size: int) -> DataFrame:
    is_half, plain, whole = F.col("is_half"), F.col("plain"), F.col("reason").isNull()
    large, aside = F.col("large"), F.col("aside")
    other = F.when(large, F.lit(LARGE_HALF_KIND)).when(is_half, F.lit(OTHER_HALF_KIND)).otherwise(OTHER_OP_KIND)
    segment = F.shiftright("half_offset", segment_size.bit_length() - 1)
    without_key = large & (_bytes("key") > KEPT_BYTES)
    key_left_out = F.when(without_key, _bytes("key")).otherwise(0)

    def by_place(of_half: int, of_op: int) -> Column:
        chosen = F.col(f"header_{of_op}")["value"]
        if of_half != of_op:
            chosen = F.when(is_half, F.col(f"header_{of_half}")["value"]).otherwise(chosen)
        return F.when(plain, chosen)

    values = {
        "half_partition": F.col("partition"),
        "segment": F.coalesce(F.when(whole, segment), F.lit(NO_SEGMENT)),
        "kind": F.when(plain, F.when(is_half, F.lit(HALF_KIND)).otherwise(_op_kind())).otherwise(other),
        "offset": F.coalesce("half_offset", F.lit(-1)),
        "record_offset": F.col("offset"),
        "time_ms": F.coalesce("time_ms", F.lit(-1)),
        "transaction_id": by_place(0, 0),
        "group": by_place(1, 1),
        "topic": by_place(2, 3),
        "source": F.when(~is_half, by_place(4, 4)).when(plain & _names_lane(), F.col(_LANE)["value"]),
        "key": F.when(~whole, F.substring("key", 1, KEY_HEAD_BYTES)).when(~without_key, F.col("key")),
        "value": F.when(~whole, F.substring("value", 1, HEAD_BYTES)).when(~aside, F.col("value")),
        "headers": F.when(F.size("kept") > 0, F.to_json("kept")),
        "signature": F.when(plain & F.col("signed"), F.col("last_header")["value"]),
        "left_out": F.when(large, _bytes("value") + F.col("header_bytes") + key_left_out)
        .when(aside, F.octet_length("value"))
        .otherwise(-1),
        "reason": F.col("reason"),
    }
    return read.select(*(values[name].cast(kind).alias(name) for name, kind in COLUMNS.items()))


def _names_lane() -> Column:
    """Whether a half message in order names a lane, by a value that has to be judged."""
    return F.col("is_half") & (F.col(_LANE)["key"] == protocol.LANE) & F.col(_LANE)["value"].isNotNull()


def _op_kind() -> Column:
    kinds = F.when(F.col("unsigned_headers") == len(OP_ORDER), OP_KIND)
    for fact, kind in FACT_KINDS.items():
        kinds = kinds.when(F.col(_FACT)["key"] == fact.header[0], kind)
    return kinds


def _kept_headers(spark: SparkSession) -> Column:
    def behind(known: int) -> Column:
        return F.slice("headers", known + 1, F.greatest(F.col("unsigned_headers") - known, F.lit(0)))

    of_lane, of_none = behind(len(HALF_ORDER) + 1), behind(len(HALF_ORDER))
    following = F.when(_names_lane(), of_lane).when(F.col("is_half"), of_none)
    kept = F.when(F.col("plain"), following).when(F.col("large"), _to_be_judged(spark))
    return kept.when(F.col("reason").isNull(), F.col("headers")).otherwise(_heads_of_headers(spark))


def _to_be_judged(spark: SparkSession) -> Column:
    """All that the rules ask of headers that go no further: the beginning of ours."""

    def judged(header: Column) -> Column:
        name = header["key"]
        ours = F.startswith(name, F.lit(protocol.RESERVED_PREFIX))
        # a repeated name is still one
        short = F.when(F.octet_length(name) > _NAME_BYTES, F.concat(F.lit(protocol.RESERVED_PREFIX), F.sha2(name, 256)))
        return F.struct(
            F.when(ours, short.otherwise(name)).otherwise("").alias("key"),
            F.when(ours, F.substring(header["value"], 1, limits.JUDGED_BYTES)).alias("value"),
        )

    return each_item(spark, F.col("headers"), _HEADER, judged)


def _heads_of_headers(spark: SparkSession) -> Column:
    """The note of a record's sizes, and the heads of its first headers: see ``streaming.batch.heads``."""
    sizes = [_bytes("key"), _bytes("value"), F.coalesce("header_bytes", F.lit(0))]
    spelled = F.concat_ws(" ", *(size.cast("string") for size in sizes))
    note = F.struct(F.lit(protocol.CUT).alias("key"), spelled.cast("binary").alias("value"))

    def head(header: Column) -> Column:
        return F.struct(
            F.substring(header["key"], 1, NAME_HEAD_CHARACTERS).alias("key"),
            F.substring(header["value"], 1, HEADER_HEAD_BYTES).alias("value"),
        )

    first = F.coalesce(F.slice("headers", 1, HEADER_HEADS), F.array().cast(f"array<{_HEADER}>"))
    return F.concat(F.array(note), each_item(spark, first, _HEADER, head))


def each_item(spark: SparkSession, array: Column, kind: str, function: Callable[[Column], Column]) -> Column:
    """The array of what ``function`` makes of each item; ``kind`` is the items' type, in SQL's words.

    ``F.transform`` does the same and takes its whole projection out of Spark's code generation (docs/decisions/0007).
    Spark maps the arrays of its own encoders with the expression that is used here, which Python has no name for.
    """
    jvm: Any = spark.sparkContext._jvm
    expressions, columns = jvm.org.apache.spark.sql.catalyst.expressions, jvm.org.apache.spark.sql.classic
    item_type = jvm.org.apache.spark.sql.types.DataType.fromDDL(kind)
    item = expressions.objects.LambdaVariable("item", item_type, True, next(_NUMBERS))  # noqa: FBT003  (Spark's own: may be null)

    def in_java(column: Any) -> Any:
        return columns.ExpressionUtils.expression(column._jc)  # noqa: SLF001  (Python's has no name for it)

    made = in_java(function(Column(columns.ExpressionUtils.column(item))))
    mapped = expressions.objects.MapObjects(item, made, in_java(array), jvm.scala.Option.empty())
    return Column(columns.ExpressionUtils.column(mapped))
