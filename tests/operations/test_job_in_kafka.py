"""What a claim in Kafka says; the job writes it, and others read it without Spark."""

import json
from dataclasses import asdict

import pytest

from checkback.operations.job_in_kafka import claim_in
from checkback.wire.groups import claim_group, display_group
from checkback.wire.protocol import Topics
from streaming.ownership.claim import Owner


def test_what_the_job_writes_is_read() -> None:
    owner = Owner("query", "checkback", "id", "http://127.0.0.1:9464")
    found = claim_in(json.dumps(asdict(owner)))
    assert found is not None
    assert found._asdict() == asdict(owner)
    assert claim_in(json.dumps(asdict(owner)) + "\0") == found
    assert str(found) == f"job 'checkback', process {owner.process} on {owner.host}, since {owner.since}"


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "{}",
        "[]",
        "7",
        '"run"',
        '{"run": 1, "host": 2, "process": "x", "since": 3}',
        '{"query_id": "q", "run": "r", "host": "h", "process": 7, "since": "it names no page"}',
    ],
)
def test_what_is_no_claim(text: str | None) -> None:
    assert claim_in(text) is None


def test_groups_are_named_as_the_job_names_them() -> None:
    assert claim_group(Topics("cb.")) == "checkback-claim:cb."
    assert display_group(Topics("shop.")) == "shop.job"
