"""Bad input through the real job: it never stops, nothing is lost, and each record ends as it must, by name."""

import os
import time
from collections import Counter
from typing import Any

from confluent_kafka import Producer
from kafka import KafkaConsumer, TopicPartition
from pyspark.sql import SparkSession

from checkback.operations.topics import TopicAdministration
from checkback.wire.protocol import FROM, HELD, ID, REASON
from state import KEPT, State, segment_from_bytes
from streaming import TransactionJob
from tests.fuzz.pieces import ANY
from tests.fuzz.records import HALF_PARTITIONS, Fuzz, Fuzzed, fuzz
from tests.place import HALF_PARTITIONS as PARTITIONS
from tests.place import STATE_PARTITIONS, Place

SEED = int(os.environ.get("CHECKBACK_FUZZ_SEED", "1"))
RECORDS = int(os.environ.get("CHECKBACK_FUZZ_RECORDS", "4000"))
ENDS = ("half", "retried", "applied", "without_effect", "duplicate", "rejected")
assert HALF_PARTITIONS == PARTITIONS


def test_each_fuzzed_record_ends_as_it_must(place: Place, spark: SparkSession) -> None:
    made = fuzz(SEED, RECORDS, place.topics, place.real_topic)
    write(place, made)
    expected = made.ends()
    counts = run_until_all_ended(place, spark, expected)
    assert ended(counts) - Counter(retried=counts["retried"]) == expected
    # what is undecided is in the state, and no more than that
    state = state_of(place, spark)
    held_waiting = state.pop("delayed", 0) - made.delayed
    assert state == +Counter(open=made.undecided)
    assert 0 <= held_waiting <= counts["retried"] <= counts["held"]
    decided = counts["committed"] + counts["rolled_back"] + made.delayed  # one that was held is committed once
    assert expected["half"] == decided + made.undecided
    assert rejections(place, made.records) == expected["rejected"]
    assert Counter(dict(record.headers)[ID] for record in place.read(place.real_topic)) == made.delivered
    held = written_by_the_job(place, made.records)
    assert Counter(one[ID] for one in held if one[HELD].startswith(b"1 ")) == made.undeliverable
    assert len(held) == counts["held"]
    for topic in (place.topics.check, place.topics.status, place.topics.parked):
        assert place.read(topic) == []


def written_by_the_job(place: Place, records: list[Fuzzed]) -> list[dict[str, bytes]]:
    """Headers of the half messages behind the fuzzed ones, whose header names kafka-python does not read."""
    begin = Counter(record.partition for record in records if record.topic == place.topics.half)
    consumer = KafkaConsumer(bootstrap_servers=place.bootstrap_servers, isolation_level="read_committed")
    places = [TopicPartition(place.topics.half, number) for number in range(PARTITIONS)]
    consumer.assign(places)
    for one in places:
        consumer.seek(one, begin[one.partition])
    ends = consumer.end_offsets(places)
    found: list[dict[str, bytes]] = []
    while any(consumer.position(one) < ends[one] for one in places):
        for polled in consumer.poll(timeout_ms=100).values():
            found += [dict(record.headers) for record in polled]
    consumer.close()
    return found


def run_until_all_ended(place: Place, spark: SparkSession, expected: Counter[str]) -> Counter[str]:
    """Let the job take everything in; its counts."""
    counts: Counter[str] = Counter()
    settings = place.settings(
        transactions={"timeout": "1h", "delay_max": "20000000d"},
        checks={"in_job": False},
        job={"max_offsets_per_trigger": max(1_500, RECORDS // 6)},  # several batches
    )
    with TopicAdministration(place.bootstrap_servers) as administration:  # halves are kept for as long as that
        counted = {"partitions": PARTITIONS, "progress_partitions": STATE_PARTITIONS, "replication": 1}
        administration.create(place.topics, **counted, times=settings.transactions)
    deadline = time.monotonic() + 90 + RECORDS / 500
    with TransactionJob(settings, lambda report: counts.update(report.counts), spark) as job:
        while not ended(counts) >= expected:
            assert time.monotonic() < deadline, f"not all have ended: {counts}"
            assert not job.wait(1), "the job has stopped"
    return counts


def ended(counts: Counter[str]) -> Counter[str]:
    """Of all counts those of which each record is in one in the end."""
    return Counter({name: counts[name] for name in ENDS})


def write(place: Place, made: Fuzz) -> None:
    """All records, each partition's in its order."""
    odd = [record for record in made.records if record.kind == "an odd header name"]
    with place.producer() as kafka:  # the other client cuts such names off
        for record in odd:
            kafka.send(record.topic, record.value, record.key, record.headers, record.partition).get(120)
    reaching = {"bootstrap.servers": place.bootstrap_servers, "enable.idempotence": True, "linger.ms": 20}
    producer = Producer({**reaching, "message.max.bytes": 2_000_000, "queue.buffering.max.messages": 1_000_000})
    failed: list[Any] = []
    for record in made.records:
        if record.kind != "an odd header name":
            producer.produce(
                *(record.topic, record.value, record.key, record.partition),
                headers=record.headers,  # type: ignore[arg-type]  # lists are invariant
                on_delivery=lambda error, _: failed.append(error) if error else None,
            )
        producer.poll(0)
    assert producer.flush(60) == 0
    assert failed == []


def state_of(place: Place, spark: SparkSession) -> Counter[str]:
    """Ops that wait and half messages that are kept, in the checkpoint."""
    found: Counter[str] = Counter()
    rows = spark.read.format("statestore").load(str(place.folder / "checkpoint")).selectExpr("value.*").collect()
    for row in rows:
        segment = segment_from_bytes(bytes(_content(row)))
        found["early"] += segment.early.count
        states = segment.ledger[segment.messages["offset"] - segment.first_offset]
        found.update({State(code).name.lower(): int((states == code).sum()) for code in KEPT})
    return +found


def _content(row: Any) -> bytes:
    return bytes(row.groupState.content)


def rejections(place: Place, records: list[Fuzzed]) -> int:
    """How many records are in ``cb.rejected``, each once, whole, and with its reason."""
    written: dict[bytes, Fuzzed] = {}
    offsets: Counter[tuple[str, int]] = Counter()
    for record in records:
        lies = (record.topic, record.partition)
        written[f"{record.topic}:{record.partition}:{offsets[lies]}".encode()] = record
        offsets[lies] += 1
    rejected = place.read(place.topics.rejected)
    assert len({dict(record.headers[:2])[FROM] for record in rejected}) == len(rejected)
    for record in rejected:
        (reason_name, reason), (from_name, came_from), *headers = record.headers
        assert (reason_name, from_name) == (REASON, FROM)
        original = written[came_from]
        assert original.end.name == "rejected", (original, reason)
        assert original.end.reason == ANY or reason.decode().startswith(original.end.reason), (original, reason)
        assert (record.key, record.value) == (original.key, original.value)
        assert headers == [(_as_read(name), value) for name, value in original.headers], original.kind
    return len(rejected)


def _as_read(name: str) -> str:
    """A name ends at a zero byte, and what is not UTF-8 arrives as U+FFFD."""
    return name.encode().decode(errors="replace").partition("\0")[0]
