"""Which rejected records are dead letters of a consumer group: none that a producer has written."""

from typing import Any

import pytest

from access.policy import policy_of
from access.verifying import Verifier
from checkback.kafka.signing import signed
from checkback.kafka.transport import OutgoingRecord
from checkback.wire.protocol import Topics, half_headers
from checkback.wire.signed_records import SigningKey
from streaming.access.told import signed_dead_letter
from streaming.batch.headers import packed_headers

TOPICS = Topics()
SHOP, JOB = SigningKey("shop-1", "s" * 40), SigningKey("job-1", "j" * 40)
POLICY = """
[accounts.shop]
groups = ["shop"]
keys = ["shop-1"]
[accounts.open]
groups = ["open"]
[accounts.programs]
keys = ["job-1"]
roles = ["job"]
"""


def rejected(group: str, signing: SigningKey | None, topic: str = TOPICS.half, **changed: Any) -> dict[str, Any]:
    headers = [*half_headers("tx-1", group, TOPICS.retry(group), [("trace", b"1")]), ("cb-action", b"commit")]
    record = OutgoingRecord(topic, 3, b"k", b"v", headers)
    if signing is not None:
        record = signed(record, signing, 1_764_000_000_000)
    content = {"key": record.key, "value": record.value, "headers": packed_headers(list(record.headers))}
    return {"topic": topic, "half_partition": 3, "reason": "too late", **content, **changed}


@pytest.fixture
def keyed(monkeypatch: pytest.MonkeyPatch) -> None:
    verifier = Verifier(policy_of(POLICY), {"shop-1": SHOP, "job-1": JOB})
    monkeypatch.setattr("streaming.access.told.told_verifier", lambda: verifier)


@pytest.mark.usefixtures("keyed")
@pytest.mark.parametrize(("group", "key"), [("points", JOB), ("shop", JOB), ("shop", SHOP), ("open", None)])
def test_what_a_group_has_sent_back_is_one(group: str, key: SigningKey | None) -> None:
    letter = (TOPICS.dead(group), [("trace", b"1"), ("checkback-reason", b"too late")])
    assert signed_dead_letter(rejected(group, key), TOPICS) == letter


@pytest.mark.usefixtures("keyed")
@pytest.mark.parametrize(("group", "key"), [("points", None), ("points", SHOP), ("shop", None)])
def test_what_a_producer_has_written_in_its_name_is_none(group: str, key: SigningKey | None) -> None:
    assert signed_dead_letter(rejected(group, key), TOPICS) is None


@pytest.mark.usefixtures("keyed")
@pytest.mark.parametrize("changed", [{"value": b"w"}, {"key": None}, {"half_partition": 4}])
def test_a_changed_copy_is_none(changed: dict[str, Any]) -> None:
    assert signed_dead_letter(rejected("points", JOB, **changed), TOPICS) is None


def test_without_a_policy_each_is_one_except_an_op() -> None:
    assert signed_dead_letter(rejected("points", None), TOPICS) is not None
    assert signed_dead_letter(rejected("points", None, TOPICS.op), TOPICS) is None
