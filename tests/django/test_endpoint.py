"""The check endpoint as Django serves it, asked as the job would ask: under ASGI and under WSGI."""

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
from django.core.asgi import get_asgi_application
from django.db import connections, transaction
from django.test import Client, override_settings
from django.urls import reverse

from checkback import CheckbackError, LocalTransactionState, Message
from checkback.django import transactional
from checkback.testing import RecordingTransport, ask, check_request
from checkback.wire.signature import signed_headers
from tests.django.shop import DjangoShop, in_place

pytestmark = pytest.mark.parametrize("kind", ["sqlite", "postgresql-read-committed"], indirect=True)
GIVEN = {"BOOTSTRAP_SERVERS": "unused:9092", "GROUP": "shop"}
KEY = "a secret of the group"
ORDER = Message("points", b"1")


@pytest.fixture
def lost(shop: DjangoShop) -> Iterator[RecordingTransport]:
    """What two processes have left that died: one after its commit, one before."""
    from checkback.django.testing import recorded_messages  # noqa: PLC0415  (beside what it is for)

    with recorded_messages(RecordingTransport(lose_ops=True)) as recording:
        with transactional(ORDER):
            shop.order(1)
        with pytest.raises(LookupError), transactional(ORDER):
            raise LookupError
        yield recording


def test_the_job_is_answered(lost: RecordingTransport) -> None:
    answers = [ask(get_asgi_application(), one, path="/checkback/") for one in lost.transactions]
    assert answers == [LocalTransactionState.COMMIT, LocalTransactionState.ROLLBACK]


@override_settings(CHECKBACK={**GIVEN, "KEY": KEY})
def test_only_who_knows_the_key_is_answered(lost: RecordingTransport) -> None:
    application = get_asgi_application()
    assert ask(application, lost.transactions[0], path="/checkback/", key=KEY) is LocalTransactionState.COMMIT
    for key in (None, "another one"):
        with pytest.raises(CheckbackError, match="401"):
            ask(application, lost.transactions[0], path="/checkback/", key=key)


def posted(body: bytes, headers: dict[str, str] | None = None) -> Any:
    client = Client(enforce_csrf_checks=True)
    return client.post(reverse("checkback:check"), body, content_type="application/json", headers=headers or {})


@override_settings(CHECKBACK={**GIVEN, "KEY": KEY})
def test_under_wsgi_several_are_answered_at_once(lost: RecordingTransport) -> None:
    checks = [check_request(one).to_json() for one in lost.transactions]
    body = json.dumps({"version": 1, "checks": checks}).encode()
    answered = posted(body, signed_headers(KEY.encode(), time.time_ns() // 1_000_000, body))
    assert answered.status_code == 200
    states = {one["id"]: one["state"] for one in answered.json()["answers"]}
    assert [states[one.transaction_id] for one in lost.transactions] == ["commit", "rollback"]


def test_a_check_of_a_large_message_is_read(lost: RecordingTransport) -> None:
    """Django itself refuses bodies of more than 2.5 MB."""
    large = {**check_request(lost.transactions[0]).to_json(), "value": "QUFB" * 1_000_000}
    assert posted(json.dumps(large).encode()).json()["state"] == "commit"


def test_what_is_no_check_is_refused(lost: RecordingTransport) -> None:
    assert posted(b"{}").status_code == 400
    other = {**check_request(lost.transactions[0]).to_json(), "group": "points"}
    assert posted(json.dumps(other).encode()).status_code == 404
    assert posted(b"x" * (8 * 1024 * 1024 + 1)).status_code == 413
    assert Client().get(reverse("checkback:check")).status_code == 405


def test_atomic_requests_are_not_for_the_endpoint(lost: RecordingTransport, kind: str) -> None:
    """What it blocks is committed, or not, by itself."""
    with in_place("default", {**connections.databases["default"], "ATOMIC_REQUESTS": True}):
        assert posted(json.dumps(check_request(lost.transactions[1]).to_json()).encode()).json()["state"] == "rollback"
        with pytest.raises(CheckbackError, match="Where it comes from ATOMIC_REQUESTS"):
            Client().post("/orders/5/pay")


def test_a_database_that_fails_is_unknown(lost: RecordingTransport) -> None:
    with transaction.atomic(), connections["default"].cursor() as cursor:
        cursor.execute("DROP TABLE checkback_transactions")
    answer = posted(json.dumps(check_request(lost.transactions[0]).to_json()).encode()).json()
    assert answer["state"] == "unknown"
    assert "check_local_transaction raised" in answer["remark"]
