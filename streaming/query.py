"""The query: both topics and a clock, decoded, through the segments' state, into one sink."""

from collections.abc import Callable

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  (as everybody calls it)
from pyspark.sql.streaming.query import StreamingQuery

from checkback.kafka.reaching import IDLE_MS
from conf import Settings
from state import Policies
from streaming.batch.failpoints import FailpointHook, no_failpoint
from streaming.checkpoint.ends_in_plan import EndsInPlan
from streaming.fairness.batch_size import FIRST_RECORDS
from streaming.stateful.decode import INGEST_TIME, clock_rows, decode
from streaming.stateful.segments import with_segment_state

_STOP_TIMEOUT = "3s"


def kafka_source(settings: Settings) -> dict[str, str]:
    """Options of Spark's Kafka source."""
    topics = settings.kafka.topics
    return {
        "kafka.bootstrap.servers": settings.kafka.bootstrap_servers,
        "subscribe": f"{topics.half},{topics.op}",
        "startingOffsets": "earliest",
        "includeHeaders": "true",
        "failOnDataLoss": "true",
        "maxOffsetsPerTrigger": str(min(FIRST_RECORDS, settings.job.max_offsets_per_trigger)),
        "kafka.isolation.level": "read_committed",
        "kafka.allow.auto.create.topics": "false",
        "kafka.connections.max.idle.ms": str(IDLE_MS),
        # left at 500, a batch that reaches the end of the log takes two seconds longer
        "kafka.fetch.max.wait.ms": "1",
        # Spark asks the broker for a partition's ends after each poll: with Kafka's own 500 records that is 1.2 µs of
        # CPU a transaction more (0.35 here, 0.87 in the broker; 10,000 would save 0.25 more). A task holds what a poll
        # gave, unpacked: of what honest producers pack no more than a fetch (1 MiB) unpacks to, but of zeros a
        # thousandfold. 2,000 of 100 KB are 200 MB a core; 10,000 would be all of the heap.
        "kafka.max.poll.records": "2000",
        # The driver's Java asks a broker that is lost for its partitions' ends until this is over, 60 s as Kafka has
        # it, and only then hears who leads them now: after 9 s somebody does. Tried as long as before, 3 minutes.
        "kafka.default.api.timeout.ms": "10000",
        "kafka.request.timeout.ms": "10000",
        "fetchOffset.numRetries": "17",
        **{f"kafka.{name}": value for name, value in settings.kafka.source_client.items()},
    }


def kafka_records(spark: SparkSession, settings: Settings) -> DataFrame:
    """The half and the op topic as one stream. Records that are gone stop the query."""
    return spark.readStream.format("kafka").options(**kafka_source(settings)).load()


def _batch_time() -> Column:
    """The batch's own time, which Spark keeps in the offset log: a replayed batch sees the same.

    As a timestamp it would be a constant of the generated Java code, which would then be another one in each batch,
    compiled again and run cold. An item of an array is handed to the code from outside, and the code stays.
    """
    first = F.col("kind") - F.col("kind")
    return F.get(F.array(F.current_timestamp()), first)


def outcome_frame(
    spark: SparkSession,
    settings: Settings,
    policies: Policies,
    failpoint: FailpointHook = no_failpoint,
    ends: EndsInPlan | None = None,
) -> DataFrame:
    """Everything from Kafka to the outcomes of the state machine, each batch's under its own policy."""
    topics = settings.kafka.topics
    size = settings.transactions.segment_size
    decoded = decode(kafka_records(spark, settings), topics, size, ends.of if ends else None)
    # An idle stream's watermark stands still, and with it all timers: one row a second keeps time going.
    clock = clock_rows(spark.readStream.format("rate").option("rowsPerSecond", 1).option("numPartitions", 1).load())
    timed = decoded.unionByName(clock).coalesce(settings.job.state_partitions).withColumn(INGEST_TIME, _batch_time())
    tolerance = settings.job.clock_tolerance
    return with_segment_state(timed, policies, topics, tolerance, failpoint=failpoint)


def start_query(frame: DataFrame, settings: Settings, sink: Callable[[DataFrame, int], None]) -> StreamingQuery:
    """Start the query on the settings' checkpoint."""
    # a batch that waits for Kafka hears of a stop late, or not at all
    frame.sparkSession.conf.set("spark.sql.streaming.stopTimeout", _STOP_TIMEOUT)
    return (
        frame.writeStream.queryName(settings.job.name)
        .option("checkpointLocation", settings.job.checkpoint)
        .outputMode("append")
        .foreachBatch(sink)
        .trigger(processingTime=f"{settings.job.batch_interval} milliseconds")  # 0: one after another
        .start()
    )
