"""All Python of README and docs is type-checked, in one run; what the terminal is shown can be typed."""

import ast
import builtins
import re
import subprocess
import sys
import tomllib
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.test_docs import ROOT, block, blocks

GIVEN = """
import time
from typing import Any

from pyspark.sql import SparkSession
from sqlalchemy import Connection, Engine, text

from checkback import *
from checkback.consumer import *
from checkback.sql.inbox import SqlInbox
from checkback.testing import *
from checkback.sql.transaction_log import SqlTransactionLog

app: Any  # Flask's, as what is mounted in it: their own types do not fit one another
ASGIMiddleware: Any
DispatcherMiddleware: Any
deltalake: Any
duckdb: Any
pandas: Any
psycopg: Any
pyarrow: Any
engine: Engine
listener: TransactionListener
inbox: SqlInbox
log: SqlTransactionLog
producer: TransactionProducer
spark: SparkSession

book_points: Listener
def save_order(connection: Connection) -> None: ...
def save_order_and_commit(transaction_id: str) -> None: ...
"""
"""What the page has said before a block, or says in words."""
UNTYPED = "docs/django.md"


def wanted(program: str) -> list[str]:
    """Names that a block uses and does not make."""
    nodes = list(ast.walk(ast.parse(program)))
    names = [node for node in nodes if isinstance(node, ast.Name)]
    made = {node.id for node in names if isinstance(node.ctx, ast.Store)} | set(dir(builtins))
    made |= {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)}
    made |= {node.arg for node in nodes if isinstance(node, ast.arg)}
    made |= {node.name for node in nodes if isinstance(node, ast.ExceptHandler) and node.name}
    for node in nodes:
        if isinstance(node, ast.Import | ast.ImportFrom):
            made |= {name.asname or name.name.partition(".")[0] for name in node.names}
    return sorted({node.id for node in names} - made)


def checked(folder: Path, programs: dict[str, str]) -> "subprocess.CompletedProcess[str]":
    (folder / "given.py").write_text(GIVEN, encoding="utf-8")
    for name, program in programs.items():
        names = wanted(program)
        given = f"from given import {', '.join(names)}\n" if names else "\n"
        (folder / f"{name}.py").write_text(given + program, encoding="utf-8")
    command = [sys.executable, "-m", "mypy", "--config-file=", "--check-untyped-defs", "--cache-dir=cache"]
    return subprocess.run(
        [*command, *(f"{name}.py" for name in programs)], cwd=folder, capture_output=True, text=True, check=False
    )


def test_each_block_is_type_checked(tmp_path: Path) -> None:
    programs = {
        re.sub(r"\W", "_", f"{file}_{index}"): block(file, index)
        for file, index in blocks()
        if file != UNTYPED  # Django ships no types; tests/django runs what the page says
    }
    wrong = {"wrong": "producer.send_in_transaction(Message('orders', 'text'))\n"}
    done = checked(tmp_path, programs | wrong)
    errors = [line for line in done.stdout.splitlines() if ": error: " in line]
    assert len(errors) == 1, done.stdout + done.stderr
    assert re.fullmatch(r"wrong\.py:2: error: .*\[arg-type\]", errors[0]), done.stdout


def commands() -> list[str]:
    pages = [*ROOT.glob("*.md"), *(ROOT / "deploy").rglob("*.md"), *(ROOT / "docs").rglob("*.md")]
    pages += [*(ROOT / "examples").rglob("*.md")]
    console = re.compile(r"^```console\n(.*?)^```", re.DOTALL | re.MULTILINE)
    found = [
        one for page in pages if "node_modules" not in page.parts for one in console.findall(page.read_text("utf-8"))
    ]
    typed = {line[2:] for one in found for line in one.splitlines() if line.startswith("$ ")}
    return sorted(part.strip() for line in typed for part in re.split(r"\s#|&&", line)[0].split("&&"))


@pytest.mark.parametrize("command", [one for one in commands() if "python -m " in one or one.startswith("make ")])
def test_what_else_is_typed_is_there(command: str) -> None:
    """The options of ``checkback`` are tested in test_docs.py."""
    if command.startswith("make "):
        targets = re.findall(r"^(\w[\w-]*):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
        assert command.split()[1] in targets
    else:
        assert find_spec(command.partition("python -m ")[2].split()[0].strip("'"))


def test_what_is_installed_is_a_distribution_of_ours_with_extras_that_it_has() -> None:
    projects = [ROOT, *(ROOT / "deploy" / name for name in ("job", "lab", "gateway"))]
    loaded = [tomllib.loads((one / "pyproject.toml").read_text(encoding="utf-8"))["project"] for one in projects]
    extras = {one["name"]: set(one.get("optional-dependencies", {})) for one in loaded}
    asked = [
        re.fullmatch(r"(checkback[\w-]*)(?:\[(.*)\])?", word.strip("'\""))
        for one in commands()
        for word in one.split()
        if " install " in one
    ]
    found = [(one[1], set(filter(None, (one[2] or "").split(",")))) for one in asked if one]
    assert found
    assert [one for one in found if one[0] not in extras or not one[1] <= extras[one[0]]] == []
