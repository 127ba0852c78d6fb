"""What a project is told: its settings, its checks, its commands, and where its tables go."""

import subprocess
import sys
from datetime import timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.checks import run_checks
from django.core.management import CommandError, call_command, execute_from_command_line
from django.db import connections, router
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.test import override_settings

from checkback import CheckbackError, ConfigurationError
from checkback.dbapi.states import ASK_LIMIT
from checkback.django.checks import checks_are_signed, endpoint_is_reached
from checkback.django.configuration import configuration
from conf.settings import TransactionSettings
from tests.django.databases import EACH
from tests.django.shop import DjangoShop, drop_tables, in_place

ROOT = Path(__file__).parents[2]
GIVEN = {"BOOTSTRAP_SERVERS": "unused:9092", "GROUP": "shop"}
SQLITE = pytest.mark.parametrize("kind", ["sqlite"], indirect=True)
EACH_ONE = pytest.mark.parametrize("kind", EACH, indirect=True)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (None, "settings.py needs CHECKBACK"),
        ({"GROUP": "shop"}, "lacks BOOTSTRAP_SERVERS"),
        ({**GIVEN, "BOOTSTRAP_SERVER": "x", "group": "y"}, "no key BOOTSTRAP_SERVER, group; there are ANSWERS_FOR"),
        ({**GIVEN, "GROUP": 7}, r"CHECKBACK\['GROUP'\] must be a text, not int"),
        ({**GIVEN, "GROUP": ""}, r"CHECKBACK\['GROUP'\]"),
        ({**GIVEN, "KEY": " "}, r"CHECKBACK\['KEY'\]: key is empty"),
        ({**GIVEN, "KEY": ["a secret", ""]}, r"CHECKBACK\['KEY'\]: key is empty"),
        ({**GIVEN, "SIGNING_KEY": ["shop-1"]}, r"CHECKBACK\['SIGNING_KEY'\]: it must be a pair of texts"),
        (
            {**GIVEN, "SIGNING_KEY": ["shop-1", "short"]},
            r"\['SIGNING_KEY'\]: The secret of key shop-1 must have",
        ),
        ({**GIVEN, "SIGNING_KEY": "shop-1"}, "must be a list of texts, not str"),
        ({**GIVEN, "KEY": 7}, "must be a text or a list of texts, not int"),
        ({**GIVEN, "URL": "http://0.0.0.0:8000/"}, r"CHECKBACK\['URL'\]: .* cannot be announced"),
        ({**GIVEN, "DATABASES": "default"}, "must be a list of texts, not str"),
        ({**GIVEN, "DATABASES": []}, "is empty: name one"),
        ({**GIVEN, "LOCK_TIMEOUT_MS": 0}, "must be at least 1"),
        ({**GIVEN, "CHECK_THREADS": 0}, r"CHECKBACK\['CHECK_THREADS'\] is 0"),
        ({**GIVEN, "PRUNE_AFTER": timedelta(0)}, r"CHECKBACK\['PRUNE_AFTER'\]: .* 0:00:00, which is not above zero"),
        ({**GIVEN, "PRUNE_AFTER": 30}, "must be a datetime.timedelta, not int"),
        ({**GIVEN, "KAFKA_OPTIONS": []}, "must be a dictionary"),
    ],
)
def test_wrong_settings_are_named(given: Any, said: str) -> None:
    with override_settings(CHECKBACK=given):
        with pytest.raises(ConfigurationError, match=said):
            configuration()
        assert "checkback.E001" in found()


def found(**how: Any) -> list[str]:
    return sorted(str(one.id) for one in run_checks(**how) if str(one.id).startswith("checkback."))


def test_secrets_are_not_shown() -> None:
    with override_settings(CHECKBACK={**GIVEN, "KEY": "top secret", "KAFKA_OPTIONS": {"sasl_plain_password": "s3"}}):
        assert "top secret" not in repr(configuration())
        assert "s3" not in repr(configuration())


def test_a_project_that_is_right_hears_nothing() -> None:
    with override_settings(CHECKBACK={**GIVEN, "URL": "http://shop:8000/checkback/", "KEY": "a secret of the group"}):
        assert found() == []
        assert checks_are_signed() == []


@pytest.mark.parametrize(
    ("database", "id_"),
    [
        ({"ENGINE": "django.db.backends.dummy"}, "checkback.E002"),
        ({"NAME": ":memory:"}, "checkback.E003"),
        ({"AUTOCOMMIT": False}, "checkback.E004"),
        ({"ATOMIC_REQUESTS": True}, "checkback.W005"),
    ],
)
def test_databases_that_do_not_fit_are_named(database: dict[str, Any], id_: str) -> None:
    with in_place("default", database):
        assert id_ in found(tags=["checkback"])


def test_what_is_missing_is_named() -> None:
    with override_settings(ROOT_URLCONF="tests.django.test_project"):
        assert found() == ["checkback.W006"]
    with override_settings(CHECKBACK={**GIVEN, "URL": "http://shop:8000/checkback"}):
        assert found() == ["checkback.W007"]
    assert [one.id for one in checks_are_signed()] == ["checkback.W008"]
    with override_settings(CHECKBACK={**GIVEN, "DATABASES": ["elsewhere"]}):
        assert found() == ["checkback.E002"]
    with override_settings(CHECKBACK={**GIVEN, "PRUNE_AFTER": timedelta(days=21)}):
        assert found() == ["checkback.W011"]


def test_what_a_job_asks_for_by_default_is_what_pruning_takes_for_it() -> None:
    assert TransactionSettings().ask_limit_ms == ASK_LIMIT / timedelta(milliseconds=1)


urlpatterns: list[Any] = []  # for the test above


@EACH_ONE
def test_missing_tables_are_named_and_migrate_makes_them(shop: DjangoShop, kind: str) -> None:
    drop_tables("default")
    assert found(databases=["default"]) == ["checkback.W009"]
    call_command("migrate", verbosity=0)
    assert found(databases=["default"]) == []
    shop.sell(1)
    call_command("migrate", "checkback", "zero", verbosity=0)
    assert found(databases=["default"]) == ["checkback.W009"]
    call_command("migrate", "django_shop", "zero", verbosity=0)


@SQLITE
def test_migrate_does_not_miss_the_tables_that_it_makes(
    shop: DjangoShop, kind: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    drop_tables("default")
    monkeypatch.setattr("sys.argv", ["manage.py", "migrate"])
    execute_from_command_line(["manage.py", "migrate"])
    assert "checkback.W" not in capsys.readouterr().err
    assert found(databases=["default"]) == []


class AskingForLogin:
    """A middleware of a project's own."""

    def __init__(self, get_response: Any) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return HttpResponseRedirect(f"/login/?next={request.path}")


@SQLITE
@pytest.mark.parametrize(
    ("changed", "answer"),
    [
        (
            {"MIDDLEWARE": ["tests.django.test_project.AskingForLogin"]},
            "status 302 to /login/?next=/checkback/, no body",
        ),
        (
            {
                "MIDDLEWARE": ["django.middleware.security.SecurityMiddleware"],
                "SECURE_SSL_REDIRECT": True,
                "CHECKBACK": {**GIVEN, "URL": "http://shop:8000/checkback/"},
            },
            "status 301 to https://shop:8000/checkback/",
        ),
        ({"ALLOWED_HOSTS": ["elsewhere"], "CHECKBACK": {**GIVEN, "URL": "http://shop/checkback/"}}, "status 400"),
    ],
)
def test_middleware_that_answers_in_place_of_the_endpoint_is_named(
    shop: DjangoShop, kind: str, changed: dict[str, Any], answer: str
) -> None:
    with override_settings(**changed):
        (warning,) = endpoint_is_reached(["default"])
    assert warning.id == "checkback.W013"
    assert answer in str(warning.msg)


@SQLITE
@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"ALLOWED_HOSTS": [".example.org"]},
        {"CHECKBACK": {**GIVEN, "KEY": "a secret of the group"}},
        {"MIDDLEWARE": ["django.middleware.security.SecurityMiddleware"], "SECURE_SSL_REDIRECT": True},
        {
            "MIDDLEWARE": ["django.middleware.security.SecurityMiddleware"],
            "SECURE_SSL_REDIRECT": True,
            "SECURE_PROXY_SSL_HEADER": ("HTTP_X_FORWARDED_PROTO", "https"),
            "CHECKBACK": {**GIVEN, "URL": "https://shop/checkback/"},
        },
    ],
)
def test_middleware_that_lets_checks_through_is_not_named(
    shop: DjangoShop, kind: str, changed: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    with override_settings(**changed):
        assert endpoint_is_reached(["default"]) == []
    assert caplog.records == []


@SQLITE
def test_models_and_migration_agree(shop: DjangoShop, kind: str) -> None:
    call_command("makemigrations", "--check", "--dry-run", verbosity=0)  # exits with 1 where they do not


@SQLITE
def test_a_router_keeps_the_tables_where_settings_say(shop: DjangoShop, tmp_path: Path, kind: str) -> None:
    with (
        in_place("other", {"ENGINE": "django.db.backends.sqlite3", "NAME": str(tmp_path / "other.db")}),
        override_settings(DATABASE_ROUTERS=["checkback.django.routers.CheckbackRouter"]),
    ):
        assert router.allow_migrate("default", "checkback")
        assert not router.allow_migrate("other", "checkback")
        assert router.allow_migrate("other", "django_shop")
        call_command("migrate", database="other", verbosity=0)
        assert "checkback_inbox" not in connections["other"].introspection.table_names()


@EACH_ONE
def test_old_rows_are_pruned(shop: DjangoShop, kind: str) -> None:
    shop.sell(1)
    out = StringIO()
    call_command("checkback_prune", "--older-than", "30d", stdout=out)
    assert out.getvalue() == "default: deleted 0 of the transaction log, 0 of the inbox.\n"
    with connections["default"].cursor() as cursor:
        cursor.execute("UPDATE checkback_transactions SET recorded_at = '2020-01-01 00:00:00.000000'")
    call_command("checkback_prune", "--older-than", "720h", "--table", "log", stdout=out)
    assert out.getvalue().endswith("default: deleted 1 of the transaction log.\n")
    for age in ("30", "0d", "d"):
        with pytest.raises(CommandError, match="is no age"):
            call_command("checkback_prune", "--older-than", age)
    with pytest.raises(CommandError, match=r"may ask about a transaction for 22 days.*--ask-limit"):
        call_command("checkback_prune", "--older-than", "21d")
    call_command("checkback_prune", "--older-than", "2d", "--ask-limit", "2d", stdout=out)
    call_command("checkback_prune", "--older-than", "21d", "--table", "inbox", stdout=out)
    with pytest.raises(CommandError, match="no database 'elsewhere'"):
        call_command("checkback_prune", "--older-than", "30d", "--database", "elsewhere")


def test_a_function_that_is_none_is_refused() -> None:
    for named in ("examples.django_shop.consumers:nothing", "no.such.module:confirm", "confirm"):
        with pytest.raises(CommandError, match="is not MODULE:FUNCTION"):
            call_command("checkback_consume", named, "--group", "g", "--topic", "t")


def test_it_works_without_sqlalchemy_and_is_not_in_import_checkback() -> None:
    program = (
        "import sys; sys.modules['sqlalchemy'] = None\n"
        "import tests.django, checkback.django.commands, checkback.django.checks, checkback.django.testing\n"
        "import checkback.django.urls\n"
    )
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True, timeout=120)
    alone = "import checkback, sys; assert not {'django', 'sqlalchemy'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", alone], cwd=ROOT, check=True, timeout=120)


def test_a_project_without_the_app_is_told_so() -> None:
    with override_settings(INSTALLED_APPS=[]), pytest.raises(CheckbackError, match="INSTALLED_APPS"):
        configuration()
