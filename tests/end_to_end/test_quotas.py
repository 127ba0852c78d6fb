"""A group that takes too much is barred, and nobody else is; on the real job."""

import json
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from checkback import CallableListener, GroupOverLimitError, Message, TransactionProducer
from checkback.wire.protocol import (
    ACTION,
    REASON,
    Action,
    HalfAction,
    HalfPosition,
    Source,
    TransactionOptions,
    half_headers,
    op_headers,
)
from streaming.fairness import fairness
from tests.end_to_end.job import running
from tests.place import AWKWARD_NAME, Place, wait_until


def _half(
    place: Place,
    name: str,
    group: str,
    options: TransactionOptions | None = None,
    topic: str = "",
    action: str | None = None,
) -> HalfPosition:
    producer = place.producer()
    headers = half_headers(name, group, topic or place.real_topic, [("trace", b"1"), ("again", b"")], options=options)
    headers += [(ACTION, action.encode())] if action else []
    sent = producer.send(place.topics.half, b"value", headers=headers, partition=0).get(120)
    producer.close()
    return HalfPosition(sent.partition, sent.offset)


def _retry(place: Place, name: str, group: str) -> None:
    in_50_minutes = TransactionOptions(deliver_at_ms=time.time_ns() // 1_000_000 + 3_000_000)
    headers = half_headers(name, group, place.topics.retry(group), options=in_50_minutes)
    producer = place.producer()
    producer.send(place.topics.half, b"value", headers=[*headers, (ACTION, HalfAction.COMMIT.encode())], partition=0)
    producer.close()


def _barred(checkpoint: Path) -> Iterator[set[str]]:
    """What each file of the checkpoint bars."""
    for file in checkpoint.glob("checkback-barred-*.json"):
        with suppress(FileNotFoundError, ValueError):  # the job removes old ones
            yield set(json.loads(file.read_text(encoding="utf-8")))


def _commit(place: Place, name: str, group: str, half: HalfPosition) -> None:
    producer = place.producer()
    headers = op_headers(name, group, half, Action.COMMIT, Source.PRODUCER)
    producer.send(place.topics.op, b"", headers=headers, partition=half.partition)
    producer.close()


@pytest.fixture
def greedy(place: Place) -> Iterator[TransactionProducer]:
    """A producer of the greedy group whose local transaction must not run."""
    listener = CallableListener(lambda *_: pytest.fail("it has run"), lambda *_: pytest.fail("it was asked"))
    with TransactionProducer(place.bootstrap_servers, "greedy", listener, topics=place.topics) as producer:
        yield producer


def _is_told(producer: TransactionProducer) -> bool:
    """Whether the job has let this producer know that its group is over a limit."""
    limits = producer._limits
    limits._sending.add(producer.group)
    limits._look()
    return bool(limits._notices)


def test_a_group_over_its_quota_is_barred_until_it_is_below_also_after_a_restart(
    place: Place, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, greedy: TransactionProducer
) -> None:
    monkeypatch.setattr(fairness, "_COUNT_AFTER_SECONDS", 0.1)
    checkpoint = place.folder / AWKWARD_NAME
    sections: dict[str, Any] = {
        "job": {"checkpoint": str(checkpoint)},
        "transactions": {"timeout": "1h", "delay_max": "1h"},
        "quotas": {"open": 3, "delayed": 1},
        "checks": {"in_job": False},
    }
    for name in "wx":  # whoever wants these again, what producers of this group have is counted apart
        _retry(place, name, "modest")
    first = {name: _half(place, name, "greedy") for name in "abcd"}
    with running(place, spark, **sections) as counts:
        wait_until(lambda: counts["half"] == 6)
        wait_until(lambda: any({"greedy", place.topics.retry("modest")} <= barred for barred in _barred(checkpoint)))
        refused = _half(place, "refused", "greedy")
        other = _half(place, "other", "modest")
        _commit(place, "other", "modest", other)
        wait_until(lambda: _is_told(greedy))
        with pytest.raises(GroupOverLimitError, match=r"quotas\.open = 3"):
            greedy.send_in_transaction(Message(place.real_topic, b"value"))
        wait_until(lambda: counts["committed"] == 1 and counts["rejected"] == 1)
    with running(place, spark, **sections) as counts:
        _half(place, "refused too", "greedy")
        wait_until(lambda: counts["rejected"] == 1)
        _half(place, "refused by its topic", "greedy", topic="missing", action=HalfAction.COMMIT)
        wait_until(lambda: counts["rejected"] == 2)
        counts.clear()
        for name in "ab":
            _commit(place, name, "greedy", first[name])
        wait_until(lambda: counts["committed"] == 2)
        sent = 0
        while not counts["half"]:
            _half(place, f"again {sent}", "greedy")
            sent += 1
            wait_until(lambda sent=sent: counts["half"] + counts["rejected"] == sent)
        wait_until(lambda: not _is_told(greedy))
    rejected = [dict(record.headers) for record in place.read(place.topics.rejected)]
    assert [record["cb-id"] for record in rejected][:3] == [b"refused", b"refused too", b"refused by its topic"]
    assert all(b"quotas.open = 3" in record[REASON] for record in rejected[:3])
    assert b"there is no such topic" in rejected[2][REASON]
    assert list(rejected[0])[2:] == ["cb-id", "cb-group", "cb-topic", "trace", "again"]
    assert refused.offset == 6


def test_an_account_over_its_limit_is_barred_whatever_its_groups_are_called(
    place: Place, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of its groups is far below its quota."""
    monkeypatch.setattr(fairness, "_COUNT_AFTER_SECONDS", 0.1)
    policy = place.folder / "access.toml"
    policy.write_text(
        'other_groups = "allow"\n[accounts.big]\ngroups = ["big.*"]\ntopics = ["*"]\nlimits = { open = 3 }\n',
        encoding="utf-8",
    )
    sections: dict[str, Any] = {
        "transactions": {"timeout": "1h"},
        "access": {"policy": str(policy)},
        "checks": {"in_job": False},
    }
    for name in "abcd":
        _half(place, name, f"big.{name}")
    with running(place, spark, **sections) as counts:
        wait_until(lambda: counts["half"] == 4)
        wait_until(lambda: bool(list((place.folder / "checkpoint").glob("checkback-barred-*.json"))))
        _half(place, "refused", "big.new")
        _commit(place, "other", "small", _half(place, "other", "small"))
        wait_until(lambda: counts["committed"] == 1 and counts["rejected"] == 1)
    with running(place, spark, **sections) as counts:
        _half(place, "refused too", "big.newer")
        wait_until(lambda: counts["rejected"] == 1)
    rejected = [dict(record.headers) for record in place.read(place.topics.rejected)]
    assert [record["cb-id"] for record in rejected] == [b"refused", b"refused too"]
    assert all(b"account big has 4 of its limits.open = 3" in record[REASON] for record in rejected)
