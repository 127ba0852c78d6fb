"""What people and tools see of a running job: metrics, the page's facts, offsets, rows of ``cb.status``."""

import json
import socket
import urllib.request
from contextlib import closing
from typing import Any

import pytest
from kafka import KafkaAdminClient
from prometheus_client.parser import text_string_to_metric_families
from pyspark.sql import SparkSession

from checkback import Message, TransactionProducer
from checkback.local.kafka import free_port
from checkback.operations.in_doubt import newest
from streaming import TransactionJob
from tests.place import Place, wait_until


def fetched(port: int, path: str) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=60) as answer:
        return str(answer.read().decode())


def sample(port: int, name: str, **labels: str) -> float | None:
    found = text_string_to_metric_families(fetched(port, "/metrics"))
    samples = (one for family in found for one in family.samples)
    return next((one.value for one in samples if one.name == name and labels.items() <= one.labels.items()), None)


def test_a_transaction_in_doubt_is_seen_until_it_is_decided(place: Place, spark: SparkSession) -> None:
    port = free_port()
    once = {"check_interval": "1h", "check_interval_max": "1h"}  # on a busy machine a second check comes at any moment
    settings = place.settings(http={"port": port}, checks={"in_job": False}, transactions=once)
    with (
        TransactionJob(settings, spark=spark) as job,
        TransactionProducer(place.bootstrap_servers, "shop", topics=place.topics) as producer,
    ):
        transaction = producer.prepare(Message(place.real_topic, b"1"))
        labels = {"group": "shop", "topic": place.real_topic}

        def open_now() -> float | None:
            job.wait(1)
            return sample(port, "checkback_open_transactions", **labels)

        wait_until(lambda: open_now() == 1, what="an open transaction in the metrics")
        assert (sample(port, "checkback_oldest_open_seconds", **labels) or 0) > 0
        wait_until(lambda: bool(newest(place.read(place.topics.status))), what="a row of cb.status")
        (row,) = newest(place.read(place.topics.status)).values()
        assert (row.transaction_id, row.half, row.attempt) == (transaction.transaction_id, transaction.half, 1)
        assert row.next_check_ms - row.asked_ms == 3_600_000
        (group,) = json.loads(fetched(port, "/api/v1/groups"))["groups"]
        assert (group["group"], group["topics"][0]["open"]) == ("shop", 1)
        assert json.loads(fetched(port, "/api/v1/status"))["batch_limit"] == 4_000, "of a start"
        wait_until(lambda: bool(in_doubt(port)), what="a row on the page")
        (listed,) = in_doubt(port)
        assert listed["half"] == str(transaction.half)
        producer.commit(transaction)
        wait_until(lambda: open_now() == 0, what="that none is open")
        wait_until(lambda: not newest(place.read(place.topics.status)), what="the end of its row")
        assert sample(port, "checkback_events_total", event="committed") == 1
        assert sample(port, "checkback_delivery_seconds_count") == 1
        assert sample(port, "checkback_checks_total", group="shop", result="asked") == 1
        assert (sample(port, "checkback_batch_seconds_count") or 0) > 0
        with closing(KafkaAdminClient(bootstrap_servers=place.bootstrap_servers)) as admin:

            def job_group() -> int:
                job.wait(1)
                offsets = admin.list_group_offsets([f"{place.topics.prefix}job"])
                return sum(one.offset for of in offsets.values() for one in of.values())

            wait_until(lambda: job_group() == 2, what="half and op in the group that shows how far the job is")


def test_a_port_that_is_taken_stops_nothing_and_is_said(
    place: Place, spark: SparkSession, caplog: pytest.LogCaptureFixture
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        port = stranger.getsockname()[1]
        with (
            TransactionJob(place.settings(http={"port": port}), spark=spark) as job,
            TransactionProducer(place.bootstrap_servers, "shop", topics=place.topics) as producer,
        ):
            producer.commit(producer.prepare(Message(place.real_topic, b"1")))
            wait_until(lambda: bool(place.read(place.real_topic)), what="the message")
            stranger.close()

            def served() -> bool:
                job.wait(1)
                try:
                    return "checkback_batch" in fetched(port, "/metrics")
                except OSError:
                    return False

            wait_until(served, what="metrics, once the port is free")
    assert f"Port {port} (http.port) cannot be had: in use by another program" in caplog.text


def in_doubt(port: int) -> list[dict[str, Any]]:
    """What the page knows, which reads ``cb.status`` for itself."""
    rows: list[dict[str, Any]] = json.loads(fetched(port, "/api/v1/transactions"))["rows"]
    return rows
