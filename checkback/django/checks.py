"""What ``manage.py check`` says of Checkback; what needs a database, with ``--database`` and before ``migrate``."""

import sys
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import urlsplit

from django.apps import apps
from django.conf import settings
from django.core.checks import CheckMessage, Error, Tags, Warning, register  # noqa: A004  (Django's own name)
from django.db import router
from django.urls import NoReverseMatch, Resolver404, get_script_prefix, resolve, reverse

from checkback.answering.advertising import described_response
from checkback.dbapi.databases import fetched
from checkback.dbapi.states import ASK_LIMIT
from checkback.django import inbox, transaction_log
from checkback.django.configuration import DjangoSettings, configuration
from checkback.django.databases import connection_of, dialect_of
from checkback.django.views import PROBE
from checkback.exceptions import ConfigurationError


def _given() -> DjangoSettings | None:
    try:
        return configuration()
    except ConfigurationError:
        return None  # E001 says so


@register("checkback")
def settings_are_right(**_: Any) -> list[CheckMessage]:
    """E001: CHECKBACK in settings.py."""
    try:
        configuration()
    except ConfigurationError as error:
        return [Error(str(error), id="checkback.E001")]
    return []


@register("checkback")
def rows_are_pruned(**_: Any) -> list[CheckMessage]:
    """W011: PRUNE_AFTER."""
    given = _given()
    if given is None or given.prune_after is None or given.prune_after >= ASK_LIMIT:
        return []
    return [
        Warning(
            f"CHECKBACK['PRUNE_AFTER'] is {given.prune_after}, and a job with the default settings asks for "
            f"{ASK_LIMIT.days} days: then nothing is pruned.",
            hint="Give 30 days. Where the job's transactions.age_limit and transactions.parked_ttl are shorter, "
            "silence this: SILENCED_SYSTEM_CHECKS = ['checkback.W011'].",
            id="checkback.W011",
        )
    ]


@register("checkback")
def databases_fit(**_: Any) -> list[CheckMessage]:
    """E002 to E004, W005: what DATABASES says of those that ``transactional`` may work in."""
    given = _given()
    return [one for alias in given.databases for one in _of_database(alias)] if given else []


def _of_database(alias: str) -> Iterator[CheckMessage]:
    try:
        connection = connection_of(alias)
    except ConfigurationError as error:
        yield Error(str(error), id="checkback.E002")
        return
    said = connection.settings_dict
    if connection.vendor == "sqlite" and said["NAME"] == ":memory:":
        yield Error(
            f"Database {alias!r} is SQLite in memory: each thread has one of its own, so a check finds nothing.",
            hint="Give a file's NAME.",
            id="checkback.E003",
        )
    if not said["AUTOCOMMIT"]:
        yield Error(
            f"AUTOCOMMIT is off for database {alias!r}: transaction.atomic() commits nothing, so transactional() is "
            "refused.",
            hint="Leave AUTOCOMMIT at True.",
            id="checkback.E004",
        )
    if said["ATOMIC_REQUESTS"]:
        yield Warning(
            f"ATOMIC_REQUESTS is on for database {alias!r}: each view is inside an atomic(), where transactional() is "
            "refused.",
            hint="Put @transaction.non_atomic_requests (django.db) on each view that uses it. To silence this: "
            "SILENCED_SYSTEM_CHECKS = ['checkback.W005'].",
            id="checkback.W005",
        )


@register("checkback")
def endpoint_is_mounted(**_: Any) -> list[CheckMessage]:
    """W006, W007: who answers checks."""
    given = _given()
    if given is None or not getattr(settings, "ROOT_URLCONF", None):
        return []
    try:
        mounted = reverse("checkback:check")
    except NoReverseMatch:
        return [
            Warning(
                "The check endpoint is in no urls.py: what a process leaves in doubt when it dies stays so.",
                hint='Add path("checkback/", include("checkback.django.urls")) to urlpatterns.',
                id="checkback.W006",
            )
        ]
    path = urlsplit(given.url).path if given.url else mounted
    if path != mounted and not _answers(path):
        return [
            Warning(
                f"CHECKBACK['URL'] is announced with the path {path!r}, and the check endpoint is at {mounted!r}.",
                hint="Make them equal, the slash at the end too; unless a proxy in front of it changes the path.",
                id="checkback.W007",
            )
        ]
    return []


def _answers(path: str) -> bool:
    try:
        return bool(resolve(path).view_name == "checkback:check")
    except Resolver404:
        return False


@register(Tags.database)
def endpoint_is_reached(databases: Sequence[str] | None = None, **_: Any) -> list[CheckMessage]:
    """W013: a request through the project's middleware, which may use a database; so with ``--database``."""
    given = _given()
    if given is None or not databases or _migrates() or not getattr(settings, "ROOT_URLCONF", None):
        return []
    try:
        answer = _answer_of_middleware(given, reverse("checkback:check"))
    except NoReverseMatch:
        return []  # W006
    if not answer:
        return []
    return [
        Warning(
            f"Middleware answers checks in place of the check endpoint: {answer}.",
            hint="Exempt the endpoint from logins and redirects, and add the host of its URL to ALLOWED_HOSTS. To "
            "silence this: SILENCED_SYSTEM_CHECKS = ['checkback.W013'].",
            id="checkback.W013",
        )
    ]


def _answer_of_middleware(given: DjangoSettings, path: str) -> str:
    """A response that is not the view's, described; empty if the view is called."""
    from django.test import Client  # noqa: PLC0415  (a server needs none of it)

    url = urlsplit(given.url or "")
    hosts = [url.netloc.rpartition("@")[2], *(host.lstrip(".") for host in settings.ALLOWED_HOSTS if host != "*")]
    secure = url.scheme == "https" if given.url else settings.SECURE_SSL_REDIRECT
    proxy = [settings.SECURE_PROXY_SSL_HEADER] if secure and settings.SECURE_PROXY_SSL_HEADER else []
    called: list[str] = []
    environ = {"HTTP_HOST": next(filter(None, hosts), "localhost"), PROBE: called, **dict(proxy)}
    path = f"/{path.removeprefix(get_script_prefix())}"
    client = Client(enforce_csrf_checks=True, raise_request_exception=False)
    response = client.post(path, b"", "application/json", secure=secure, **environ)
    content = b"" if response.streaming else response.content
    return "" if called else described_response(response.status_code, response.headers.get("Location", ""), content)


def _migrates() -> bool:
    """Whether ``manage.py migrate`` runs: it looks at the checks before it makes the tables."""
    return sys.argv[1:2] == ["migrate"]


@register(Tags.security, deploy=True)
def checks_are_signed(**_: Any) -> list[CheckMessage]:
    """W008, with ``--deploy``: who may ask."""
    given = _given()
    if given is None or given.key is not None:
        return []
    return [
        Warning(
            "CHECKBACK has no KEY: whoever reaches the check endpoint may ask it, and what is asked about too early is "
            "rolled back.",
            hint="Give the secret that the job has for this group in checks.keys.",
            id="checkback.W008",
        )
    ]


@register(Tags.database)
def tables_are_there(databases: Sequence[str] | None = None, **_: Any) -> list[CheckMessage]:
    """W009, E010, W012: with ``--database``. W009 is no error, which would keep ``migrate`` from making them."""
    given = _given()
    if given is None:
        return []
    return [one for alias in databases or () if alias in given.databases for one in _of_tables(alias)]


def _of_tables(alias: str) -> Iterator[CheckMessage]:
    try:
        connection = connection_of(alias)
    except ConfigurationError:
        return  # E002 says so
    missing = {transaction_log.TABLE, inbox.TABLE} - set(connection.introspection.table_names())
    if missing and not _migrates():
        yield Warning(
            f"Database {alias!r} has no table {' and '.join(sorted(missing))}.",
            hint=f"Run manage.py migrate checkback --database {alias}; a router of yours may forbid it.",
            id="checkback.W009",
        )
    for table in (transaction_log.TABLE, inbox.TABLE):
        try:
            dialect_of(connection).refuse_unsafe_table(connection, table)
        except ConfigurationError as error:
            yield Error(f"Database {alias!r}: {error}", id="checkback.E010")
    if connection.vendor == "mysql":
        yield from _of_engines(alias, connection)


def _of_engines(alias: str, connection: Any) -> Iterator[CheckMessage]:
    """Tables of the project's models whose rows stay when a transaction is rolled back."""
    ours = {transaction_log.TABLE, inbox.TABLE}
    models = {model._meta.db_table for model in apps.get_models() if router.allow_migrate_model(alias, model)}  # noqa: SLF001  (Django documents it)
    engines = dict(fetched(connection, _ENGINES))
    wrong = sorted(name for name in models - ours if engines.get(name, "InnoDB") != "InnoDB")
    if wrong:
        yield Warning(
            f"Database {alias!r} keeps {', '.join(wrong[:_MOST_NAMED])} in an engine without transactions, or in one "
            "that nobody has tried: what transactional() rolls back may stay there.",
            hint="ALTER TABLE ... ENGINE=InnoDB. To silence this: SILENCED_SYSTEM_CHECKS = ['checkback.W012'].",
            id="checkback.W012",
        )


_ENGINES = (
    "SELECT table_name, engine FROM information_schema.tables WHERE table_schema = DATABASE() AND engine IS NOT NULL"
)
_MOST_NAMED = 5
