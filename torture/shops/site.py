"""The Django site of a fault run: settings, the check endpoint as its one page, a WSGI server, and how it sells."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

import django
import pymysql
from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.db import close_old_connections, connection, connections
from django.urls import include, path
from sqlalchemy import make_url

from checkback import Message
from checkback.django import announce, transactional
from checkback.django.process import producer
from torture.shops.selling import Sale, Watching, watch_producer


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True


class _Quiet(WSGIRequestHandler):
    def log_message(self, *_: Any) -> None:
        """Nothing: there are many."""


class DjangoSeller:
    """The site runs as soon as it is made, and announces itself."""

    log = None

    def __init__(self, url: str, kafka: dict[str, Any], watching: Watching, *, sells: bool) -> None:
        server = _Server(("127.0.0.1", 0), _Quiet)
        _configure(url, {**kafka, "URL": f"http://127.0.0.1:{server.server_port}/checkback/"})
        server.set_app(get_wsgi_application())
        threading.Thread(target=server.serve_forever, daemon=True).start()
        announce()
        _watch_commits(watching)
        if sells:
            watch_producer(producer(), watching)

    @contextmanager
    def sale(self, message: Message) -> Iterator[Sale]:
        """As in a view: Django closes what it cannot use before and after each request."""
        close_old_connections()
        try:
            with transactional(message) as transaction, connection.cursor() as cursor:
                yield Sale(transaction.transaction_id, cursor.execute)
        finally:
            close_old_connections()


def _database(url: str) -> dict[str, Any]:
    parts = make_url(url)
    its = {"USER": parts.username, "NAME": parts.database}
    if parts.get_backend_name() == "postgresql":
        return {**its, "ENGINE": "django.db.backends.postgresql", "HOST": parts.query["host"]}
    pymysql.install_as_MySQLdb()  # no mysqlclient is needed for a fault run
    return {**its, "ENGINE": "django.db.backends.mysql", "HOST": parts.query["unix_socket"]}


def _configure(url: str, kafka: dict[str, Any]) -> None:
    settings.configure(
        SECRET_KEY="of a fault run",  # noqa: S106  (nobody can reach it)
        ALLOWED_HOSTS=["127.0.0.1"],
        ROOT_URLCONF=__name__,
        USE_TZ=True,
        INSTALLED_APPS=["checkback.django"],
        DATABASES={"default": _database(url)},
        CHECKBACK=kafka,
    )
    django.setup()
    urlpatterns.append(path("checkback/", include("checkback.django.urls")))


def _watch_commits(watching: Watching) -> None:
    """A connection of the driver's, which each thread has, commits by this method of its wrapper."""
    wrapper: Any = type(connections["default"])
    commit = wrapper._commit  # noqa: SLF001  (atomic() calls it)
    wrapper._commit = lambda self: watching.committing(lambda: commit(self))  # noqa: SLF001  (see above)


urlpatterns: list[Any] = []
