"""What the access policy has refused is told from all else that is rejected, by the reason alone."""

from typing import Any

import pytest

from access.policy import judge, policy_of
from access.refusals import UNSIGNED, Refused, refused
from access.verifying import Writer
from checkback.wire.protocol import Topics
from tests.access.test_verifying import LARGE, said

POLICY = policy_of("""
[accounts.shop]
groups = ["shop", "a, which*", "x may not*"]
topics = ["orders"]
not_topics = ["payroll"]
""")


@pytest.mark.parametrize("group", ["shop", "stranger", "a, which is\nodd", "x may not send to a, which it denies"])
@pytest.mark.parametrize("topic", ["payroll", "invoices.2026", "cb.retry.points"])
def test_what_a_group_may_not_send(group: str, topic: str) -> None:
    reason = judge(POLICY, group, topic, Topics()).reason
    assert refused(reason, group, "the first of several") == Refused(group, topic, reason[:300])


@pytest.mark.parametrize(
    ("signed_by", "writer", "changed"),
    [
        (None, Writer.PRODUCER, {}),
        ("both-1", Writer.PRODUCER, {}),
        ("shop-1", Writer.CHECK, {}),
        ("shop-1", Writer.PRODUCER, {"ours": b"other"}),
        ("shop-1", Writer.PRODUCER, {"content": b"other"}),
        ("shop-1", Writer.PRODUCER, {"content": None}),
        ("shop-1", Writer.PRODUCER, {"value": LARGE, "content": b"other"}),
        ("shop-1", Writer.PRODUCER, {"time_ms": 0}),
    ],
)
def test_what_is_not_signed(signed_by: str | None, writer: Writer, changed: dict[str, Any]) -> None:
    assert refused(said(signed_by, writer, **changed), "shop", "orders") == Refused("shop", "orders", UNSIGNED)


@pytest.mark.parametrize(
    "reason",
    [
        "",
        "group shop has 7 of quotas.open = 5; it is let in again",
        "cb-topic must be a name Kafka allows, not 'group shop may not send to payroll: no account names that group'",
        "group a may not send to b: no account names that group; and cb.dlq.a does not take it",
    ],
)
def test_all_else_is_not_the_policys(reason: str) -> None:
    assert refused(reason, "shop", "orders") is None
