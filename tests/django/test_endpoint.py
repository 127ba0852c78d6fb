"""The check endpoint as Django serves it, asked as the job would ask: under ASGI and under WSGI."""

import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from functools import partial
from importlib import import_module, reload
from typing import Any

import django
import pytest
from django.conf import settings
from django.core.asgi import get_asgi_application
from django.core.checks.registry import registry
from django.db import connections, transaction
from django.test import Client, override_settings
from django.urls import reverse

from checkback import CheckbackError, ConfigurationError, LocalTransactionState, Message
from checkback.answering.app import check_app
from checkback.django import DjangoTransactionLog, announce, transactional
from checkback.django.models import LoggedTransaction
from checkback.testing import RecordingTransport, ask, check_request
from checkback.wire.signature import signed_headers
from tests.checkback.test_greenlets import patched
from tests.django.shop import DjangoShop, in_place

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


@pytest.fixture
def _checks_as_before() -> Iterator[None]:
    """An app registers its system checks when it is installed, and Django never removes them."""
    before = set(registry.registered_checks)
    yield
    registry.registered_checks = before


@pytest.mark.skipif(django.VERSION < (5, 1), reason="Django 5.1 has brought LoginRequiredMiddleware")
@pytest.mark.usefixtures("_checks_as_before")
@override_settings(
    INSTALLED_APPS=[*settings.INSTALLED_APPS, "django.contrib.auth", "django.contrib.contenttypes"],
    MIDDLEWARE=[
        "django.contrib.sessions.middleware.SessionMiddleware",
        "django.contrib.auth.middleware.AuthenticationMiddleware",
        "django.contrib.auth.middleware.LoginRequiredMiddleware",
    ],
)
def test_the_job_needs_no_login(lost: RecordingTransport) -> None:
    answers = [ask(get_asgi_application(), one, path="/checkback/") for one in lost.transactions]
    assert answers == [LocalTransactionState.COMMIT, LocalTransactionState.ROLLBACK]


@override_settings(CHECKBACK={**GIVEN, "KEY": ["another secret", KEY]})
def test_while_the_key_is_changed_both_are_answered(lost: RecordingTransport) -> None:
    application = get_asgi_application()
    for key in (KEY, "another secret"):
        assert ask(application, lost.transactions[0], path="/checkback/", key=key) is LocalTransactionState.COMMIT


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


@override_settings(CHECKBACK={**GIVEN, "CHECK_THREADS": 2})
def test_requests_that_come_at_once_share_their_connections(
    lost: RecordingTransport, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each would have 16 of its own under WSGI: some of them are all that a database has."""
    counting, two, now, most = threading.Lock(), threading.Barrier(2), 0, 0

    def counted(*_: Any) -> LocalTransactionState:
        nonlocal now, most
        with counting:
            now += 1
            most = max(most, now)
        two.wait(30)
        with counting:
            now -= 1
        return LocalTransactionState.COMMIT

    monkeypatch.setattr(DjangoTransactionLog, "check_local_transaction", counted)
    check = check_request(lost.transactions[0]).to_json()
    body = json.dumps({"version": 1, "checks": [{**check, "id": f"tx-{number}"} for number in range(6)]}).encode()
    with ThreadPoolExecutor() as requests:
        answered = [one.result() for one in [requests.submit(posted, body) for _ in range(3)]]
    assert [len(one.json()["answers"]) for one in answered] == [6, 6, 6]
    assert most == 2


@override_settings(CHECKBACK={**GIVEN, "CHECK_THREADS": 3})
def test_the_first_requests_at_once_have_one_limit(shop: DjangoShop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each made an application of its own, with all of ``CHECK_THREADS``."""
    beside, made = threading.Barrier(2), []

    def making(*given: Any, **named: Any) -> Any:
        made.append(check_app(*given, **named))
        with suppress(threading.BrokenBarrierError):
            beside.wait(0.5)  # a second one in the making is met here
        return made[-1]

    monkeypatch.setattr("checkback.django.views.check_app", making)
    with ThreadPoolExecutor() as requests:
        answered = [one.result() for one in [requests.submit(posted, b"{}") for _ in range(2)]]
    assert ([one.status_code for one in answered], len(made)) == ([400, 400], 1)


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


@override_settings(CHECKBACK={**GIVEN, "PRUNE_AFTER": timedelta(days=30)})
def test_old_rows_go_with_the_checks(lost: RecordingTransport) -> None:
    committed, rolled_back = lost.transactions
    with connections["default"].cursor() as cursor:
        cursor.execute("UPDATE checkback_transactions SET recorded_at = '2020-01-01 00:00:00.000000'")
    asked = check_request(rolled_back)
    for limit_ms, left in ((0, 2), (86_400_000, 1)):
        posted(json.dumps(replace(asked, ask_limit_ms=limit_ms).to_json()).encode())
        assert LoggedTransaction.objects.count() == left
    assert not LoggedTransaction.objects.filter(transaction_id=committed.transaction_id)


def test_among_greenlets_the_check_view_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two checks at once would fail there, and so would each query of the application meanwhile."""
    urls = import_module("checkback.django.urls")
    patched(monkeypatch, "gevent", "threading")
    for serve in (partial(reload, urls), announce):
        with pytest.raises(ConfigurationError, match=r"checkback\.django does not work in a process patched by gevent"):
            serve()
