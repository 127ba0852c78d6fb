"""The Python of README and docs runs, on a recording transport where it says nothing of Kafka.

README's quick start is run as it is typed, in ``packaging/test_quick_start.py``; that with a cluster in
``checkback/testing/test_cluster.py``.
"""

import re
import time
from collections.abc import Iterator
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, text

import checkback
from checkback import CallableListener, LocalTransactionState, Message, TransactionOptions, TransactionProducer
from checkback.testing import RecordingTransport, ask
from checkback.transaction_log import SqlTransactionLog

ROOT = Path(__file__).parents[1]
_BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)
ELSEWHERE = {("README.md", 0), ("docs/testing.md", 2)}
ONLY_READ = {
    ("docs/sinks.md", 0): "names storage and databases that are the reader's",
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
