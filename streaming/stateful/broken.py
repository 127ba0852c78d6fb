"""What is wrong with a record that breaks the protocol, as expressions that run inside the JVM."""

from collections.abc import Callable

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812  (as everybody calls it)

from checkback.wire import limits, protocol
from checkback.wire.protocol import Topics
from state.segment import BEYOND_REASON

OPTIONS = (protocol.PARTITION, protocol.IMMUNITY_MS, protocol.CHECK_MAX, protocol.DELIVER_AT, protocol.MESSAGES)
"""Optional headers of a half message, all of them numbers."""

ZERO_IN_NAME = "a header's name holds a zero byte"

_HELD = r"^[0-9]{1,9} [0-9]{1,15} (0|[1-9][0-9]{0,8}):(0|[1-9][0-9]{0,14})\z"

Ends = Callable[[Column], Column]
"""Of a half partition, where it ends as far as the batch knows; null where it does not."""


def broken_reason(topics: Topics) -> Column:
    """The first thing wrong with a record, null when nothing is."""
    is_half, is_op = F.col("is_half"), ~F.col("is_half")
    source, action = F.col("source"), F.col("action")
    # one message of several has a longer id when it is held, or delivered again
    alone = (is_half & F.col("held").isNotNull()) | (is_op & (action == protocol.Action.REDELIVER))
    most = F.when(alone, protocol.MAX_NUMBERED_ID_BYTES).otherwise(protocol.MAX_ID_BYTES)
    text = {protocol.ID: ("id", most, protocol.MAX_ID_BYTES)}
    text |= {protocol.GROUP: ("group", F.lit(protocol.MAX_GROUP_BYTES), protocol.MAX_GROUP_BYTES)}
    rules: list[tuple[Column, str]] = [
        # the sink's client would cut the name off there
        (F.col("zero_in_name") & F.col("headers").isNotNull() & (F.size("headers") > 0), ZERO_IN_NAME),
        (F.col("repeated"), "a cb- header is there more than once"),
    ]
    for name, (column, at_most, said) in text.items():
        rules += _text_rules(F.col(column), name, at_most, said)
    version = F.col("version")
    rules += [
        (version.isNotNull() & ~version.rlike(r"^[1-9][0-9]{0,8}\z"), "cb-version is not a number"),
        (version.cast("int") > protocol.VERSION, "cb-version is later than this job's: upgrade the job"),
    ]
    rules += [(is_half & wrong, reason) for wrong, reason in _half_rules(topics)]
    named = F.concat(F.col("named_partition").cast("string"), F.lit(":"), F.col("named_offset").cast("string"))
    natural = (F.col("named_partition") >= 0) & (F.col("named_offset") >= 0)
    plain = F.coalesce((named == F.col("half")) & natural, F.lit(False))  # noqa: FBT003  (that is its signature)
    rules += [
        (
            is_op & (F.col("header_bytes") > limits.MAX_OP_HEADER_BYTES),
            "the headers of an op are larger than 16 KiB together",
        ),
        (is_op & ~plain, "cb-half is not partition:offset"),
        # each would get a segment of its own, and random numbers would make batches that never end
        (is_op & (F.col("named_offset") >= 10**protocol.MAX_OFFSET_DIGITS), "cb-half names an offset that no log has"),
        (
            is_op & (F.col("named_partition") != F.col("partition")),
            "it lies on another partition than its cb-half",
        ),
        (
            is_op & (action.isNull() | ~action.isin([a.value for a in protocol.Action])),
            "cb-action is not one we know",
        ),
        (
            is_op & (source.isNull() | ~source.isin([s.value for s in protocol.Source])),
            "cb-source is not one we know",
        ),
        (
            is_op & (action == protocol.Action.UNREACHABLE) & (source != protocol.Source.CHECK),
            "only a check can find a producer unreachable",
        ),
        (
            is_op & (action == protocol.Action.RESUME) & (source != protocol.Source.OPERATOR),
            "only an operator can resume",
        ),
        (
            is_op & (action == protocol.Action.REDELIVER) & (source != protocol.Source.OPERATOR),
            "only an operator can have a message delivered again",
        ),
    ]
    return F.coalesce(*(F.when(wrong, F.lit(reason)) for wrong, reason in rules))


def beyond(ends: Ends | None) -> list[Column]:
    """Where an op names a place that no half message can have yet: see :func:`streaming.stateful.decode.decode`."""
    if ends is None:
        return []
    beyond = ~F.col("is_half") & (F.col("named_offset") >= ends(F.col("partition")))
    return [F.when(beyond, F.lit(BEYOND_REASON))]


def size_rules() -> list[tuple[Column, str]]:
    """What no record may exceed; of one that does only the head continues from here."""
    spare = F.when(F.col("held").isNotNull(), limits.HELD_SPARE).otherwise(1)
    return [
        (F.col("value_bytes") > limits.MAX_VALUE_BYTES, "its value is larger than 16 MiB"),
        (F.col("key_bytes") > limits.MAX_KEY_BYTES, "its key is larger than 1 MiB"),
        (F.size("headers") > limits.MAX_HEADERS * spare, "it has more than 1,000 headers"),
        (F.col("header_bytes") > limits.MAX_HEADER_BYTES * spare, "its headers are larger than 1 MiB together"),
    ]


def _half_rules(topics: Topics) -> list[tuple[Column, str]]:
    topic = F.col("real_topic").cast("string")
    legal = r"^[a-zA-Z0-9._-]{1,249}\z"
    partition, immunity, check_max, deliver_at, messages = (F.col(f"`{name}`") for name in OPTIONS)
    action, held = F.col("action"), F.col("held")
    return [
        # nobody can deliver it as it is, nor read it again: librdkafka's client for Python fails on such a name
        (F.col("replaced_in_name"), "a header's name is not UTF-8, or has U+FFFD in it"),
        (
            topic.isNull() | ~topic.rlike(legal) | topic.isin(".", ".."),
            "cb-topic is missing or is not a valid topic name",
        ),
        (topic.isin(*topics.all()) | topic.startswith("__"), "cb-topic is one of Checkback's or Kafka's own"),
        (partition.isNotNull() & ~partition.rlike(r"^[0-9]{1,9}\z"), "cb-partition is not a number"),
        (
            immunity.isNotNull() & ~immunity.rlike(r"^[0-9]{1,15}\z"),
            "cb-immunity-ms is not a number of milliseconds",
        ),
        (check_max.isNotNull() & ~check_max.rlike(r"^[0-9]{1,9}\z"), "cb-check-max is not a number"),
        (
            deliver_at.isNotNull() & ~deliver_at.rlike(r"^[0-9]{1,15}\z"),
            "cb-deliver-at is not a number of milliseconds",
        ),
        (messages.isNotNull() & ~messages.rlike(r"^[0-9]{1,9}\z"), "cb-messages is not a number"),
        (messages.isNotNull() & partition.isNotNull(), "cb-partition is for one message, not for several"),
        (
            action.isNotNull() & ~action.isin([a.value for a in protocol.HalfAction]),
            "cb-action of a half message is not one we know",
        ),
        (
            held.isNotNull() & (~held.rlike(_HELD) | action.isNull() | messages.isNotNull()),
            "cb-held is not what the job writes there",
        ),
    ]


def _text_rules(column: Column, name: str, most: Column, said: int) -> list[tuple[Column, str]]:
    length = F.octet_length(column)
    return [
        (column.isNull() | (length == 0), f"{name} is missing"),
        (length > most, f"{name} is longer than {said} bytes"),
        (~F.is_valid_utf8(column.cast("string")), f"{name} is not UTF-8"),
    ]
