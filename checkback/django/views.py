"""The check endpoint as a view. What a request must be, and what is answered, is ``check_app``'s alone."""

import threading
from functools import cache
from typing import Any

from django.core.signals import setting_changed
from django.db import connections, transaction
from django.http import HttpRequest, HttpResponse

from checkback.answering.app import check_app
from checkback.answering.check_requests import MAX_BODY_BYTES
from checkback.django.configuration import configuration
from checkback.django.process import transaction_log
from checkback.listener import LocalTransactionState
from checkback.wire.checks import CheckRequest


class _InItsThread:
    """The log in a thread that ends with the request: nobody else would close the connections that it made there.

    No more than ``threads`` at once in all requests, which under WSGI have a loop and so a limit of their own each:
    many checks that come at once would take all connections that the database has.
    """

    def __init__(self, threads: int) -> None:
        self._log = transaction_log()
        self._free = threading.BoundedSemaphore(threads)

    def check_local_transaction(self, request: CheckRequest) -> LocalTransactionState:
        with self._free:
            try:
                return self._log.check_local_transaction(request)
            finally:
                for alias in self._log.databases:
                    connections[alias].close()


_MAKING = threading.Lock()


def _app() -> Any:
    with _MAKING:  # the cache alone makes one for each of the first requests, each with CHECK_THREADS of its own
        return _made_app()


@cache
def _made_app() -> Any:
    given = configuration()
    return check_app(_InItsThread(given.check_threads), given.group, key=given.key)


PROBE = "checkback.probe"
"""A key of ``request.META`` that no client can set: the view appends to its list, and does no more."""


async def check(request: HttpRequest) -> HttpResponse:
    """Answer a check of the job. Not behind a login, and without a CSRF token: the signature is what lets it in."""
    if PROBE in request.META:
        request.META[PROBE].append(request.path)
        return HttpResponse()
    # not request.body, which refuses more than DATA_UPLOAD_MAX_MEMORY_SIZE: a check has its message in it
    return await _answered(request, request.read(MAX_BODY_BYTES + 1))


# on the function itself: the decorator of Django 4.2 hides that it is a coroutine
check.csrf_exempt = True  # type: ignore[attr-defined]  # Django's way of marking a view
check.login_required = False  # type: ignore[attr-defined]  # login_not_required of Django 5.1
for _alias in connections:  # what a check blocks is committed before it is answered, whatever ATOMIC_REQUESTS says
    transaction.non_atomic_requests(using=_alias)(check)


async def _answered(request: HttpRequest, body: bytes) -> HttpResponse:
    headers = [(name.lower().encode(), value.encode("latin-1")) for name, value in request.headers.items()]
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": request.method,
        "scheme": request.scheme,
        "path": "/",
        "raw_path": b"/",
        "root_path": "",
        "query_string": b"",
        "headers": headers,
        "client": None,
        "server": None,
    }
    given, response = [{"type": "http.request", "body": body, "more_body": False}], HttpResponse()

    async def receive() -> dict[str, Any]:
        return given.pop() if given else {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            response.status_code = message["status"]
            for name, value in message["headers"]:
                response[name.decode("latin-1")] = value.decode("latin-1")
        else:
            response.write(message.get("body", b""))

    await _app()(scope, receive, send)
    return response


def _changed(*, setting: str, **_: Any) -> None:
    if setting == "CHECKBACK":  # override_settings in a test
        _made_app.cache_clear()


setting_changed.connect(_changed)
