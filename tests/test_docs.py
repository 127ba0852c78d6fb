"""The Python of README and docs runs, on a recording transport where it says nothing of Kafka.

README's quick start is run as it is typed, in ``packaging/test_quick_start.py``; that with a cluster in
``checkback/testing/test_cluster.py``, that of the inbox in ``checkback/test_inbox.py``, consumers in
``consumer/test_documented.py``, readers of tables in ``streaming/tables/test_reading.py``.
"""

import json
import re
import time
from collections.abc import Iterator
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import typer
from sqlalchemy import create_engine, text

import checkback
from access.policy import doubts, policy_of
from checkback import CallableListener, LocalTransactionState, Message, TransactionOptions, TransactionProducer
from checkback.sql.transaction_log import SqlTransactionLog
from checkback.testing import RecordingTransport, ask
from checkback_cli import app
from conf import load

ROOT = Path(__file__).parents[1]
_BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)
ELSEWHERE = {
    *(("README.md", 0), ("docs/testing.md", 2)),
    *((f"docs/{page}.md", number) for page in ("delivery", "consumers") for number in (0, 1)),
    ("docs/delivery.md", 2),
    *((f"docs/sinks-{kind}.md", number) for kind in ("delta", "parquet", "postgresql") for number in range(3)),
}
ONLY_READ = {
    **{("docs/django.md", n): "files of a project, made in examples/test_django_shop.py" for n in range(8)},
    ("docs/direct-delivery.md", 0): "a lane has clients of its own; tests/producing/test_direct.py has a Kafka",
    ("docs/pull-consumer.md", 0): "pulls for ever; tests/consumer/pull/test_pull.py does",
    ("docs/pull-consumer.md", 1): "needs a topic; tests/consumer/pull/test_pull.py has one",
    ("docs/transaction-log.md", 3): "needs a PostgreSQL; tests/sql/test_transacting_plain.py has one",
    ("examples/README.md", 0): "a line of examples/flask_shop.py, which a test runs",
}


def blocks() -> list[tuple[str, int]]:
    files = [ROOT / "README.md", ROOT / "examples" / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [
        (str(file.relative_to(ROOT)), index)
        for file in files
        for index, _ in enumerate(_BLOCK.findall(file.read_text(encoding="utf-8")))
    ]


def block(file: str, index: int) -> str:
    return str(_BLOCK.findall((ROOT / file).read_text(encoding="utf-8"))[index])


def others(language: str) -> list[Any]:
    files = [ROOT / "README.md", ROOT / "deploy" / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    found = re.compile(rf"^```{language}\n(.*?)^```", re.DOTALL | re.MULTILINE)
    return [
        pytest.param(one, id=f"{file.relative_to(ROOT)}-{number}")
        for file in files
        for number, one in enumerate(found.findall(file.read_text(encoding="utf-8")))
    ]


@pytest.mark.parametrize("file", [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))], ids=str)
def test_no_footnote_has_the_label_of_a_link(file: Path) -> None:
    """It would be a link to that page."""
    text = file.read_text(encoding="utf-8")
    links = set(re.findall(r"^\[([^]]+)\]: ", text, re.MULTILINE))
    assert links.isdisjoint(re.findall(r"(?:^|[.;] )\[([^]]+)\] ", text, re.MULTILINE))


def test_every_test_that_the_promises_name_is_there() -> None:
    page = (ROOT / "docs" / "promises.md").read_text(encoding="utf-8")
    cells = [cell for line in page.splitlines() if line.startswith("|") for cell in line.split("|")[2:-1]]
    named = {name for cell in cells for name in re.findall(r"`([^`]*)`", cell)}
    assert len(named) > 100
    assert [name for name in sorted(named) if not _is_there(*name.partition("::")[::2])] == []


def _is_there(path: str, test: str) -> bool:
    file = ROOT / "tests" / path
    return file.is_file() and (not test or f"def {test}(" in file.read_text(encoding="utf-8"))


@pytest.mark.parametrize("text", others("toml"))
def test_settings_are_such(text: str, tmp_path: Path) -> None:
    if text.startswith("# access.toml"):
        assert list(doubts(policy_of(text))) == []
        return
    file = tmp_path / "checkback.toml"
    there = tmp_path / "authorities.pem"
    there.touch()
    text = text.replace("/etc/checkback/authorities.pem", str(there))
    # the password is in the environment there, and named so
    needed = "" if "password" not in text or "CHECKBACK_KAFKA__SECURITY__PASSWORD" not in text else 'password = "x"\n'
    file.write_text(text.rstrip() + "\n" + needed, encoding="utf-8")
    load(file)


@pytest.mark.parametrize("text", others("json"))
def test_json_is_such(text: str) -> None:
    for one in re.split(r"\n\n", text):
        json.loads(one.replace(", ...}", "}"))


@pytest.mark.parametrize("command", [line for one in others("console") for line in one.values[0].splitlines()])
def test_commands_have_the_options_that_are_shown(command: str) -> None:
    words = re.split(r"#|\||>", command.removeprefix("$ "))[0].split()
    program = words[0].rpartition("/")[2] if words else ""
    if not command.startswith("$ ") or program != "checkback":
        return
    known: Any = typer.main.get_command(app)
    assert words[1] in known.commands or words[1].startswith("-"), command
    for word in words[1:]:
        if word in getattr(known, "commands", {}):
            known = known.commands[word]
        elif word.startswith("-"):
            assert any(word in {*option.opts, *option.secondary_opts} for option in known.params), command


@pytest.fixture
def names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """What a block may count on: the names of the one before it."""
    monkeypatch.chdir(tmp_path)
    recording = RecordingTransport()
    recorded = partial(TransactionProducer, transport=recording)
    monkeypatch.setattr(checkback, "TransactionProducer", recorded)
    monkeypatch.setattr(checkback, "CheckEndpoint", lambda *_: nullcontext())
    engine = create_engine("sqlite:///shop.db")
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE orders (body BLOB)"))
    log = SqlTransactionLog(engine)
    log.create_table()
    commits = CallableListener(lambda _message, _arg: LocalTransactionState.COMMIT, log.check_local_transaction)
    saved: list[Any] = []
    yield {
        "engine": engine,
        "log": log,
        "producer": recorded("nowhere:1", "shop", commits),
        "recording": recording,
        "save_order": saved.append,
        "save_order_and_commit": saved.append,
        "Message": Message,
        "TransactionOptions": TransactionOptions,
        "TransactionProducer": recorded,
        "RecordingTransport": RecordingTransport,
        "CallableListener": CallableListener,
        "LocalTransactionState": LocalTransactionState,
        "ask": ask,
        "time": time,
    }
    engine.dispose()


@pytest.mark.parametrize(("file", "index"), [one for one in blocks() if one not in ELSEWHERE])
def test_a_block_runs(file: str, index: int, names: dict[str, Any]) -> None:
    program = compile(block(file, index), f"{file} ({index})", "exec")
    if (file, index) in ONLY_READ:
        return
    exec(program, names)  # noqa: S102  (that is the test)
    tests = [value for name, value in names.items() if name.startswith("test_")]
    for test in tests:
        test()
    names.get("engine", names["engine"]).dispose()
    assert tests or [one.action for one in names["recording"].transactions]
