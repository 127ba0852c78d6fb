"""What executors on other machines lack is said before anything is taken over."""

import platform
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from checkback.exceptions import CheckbackError, ConfigurationError, JobFailedError
from checkback.version import __version__
from conf import Settings
from streaming.executors import Found, _look, refuse_unlike

HERE = Found("worker-1", ".".join(platform.python_version_tuple()[:2]), __version__, "", "")


def job(**values: Any) -> Settings:
    return Settings.model_validate({"job": values})


@pytest.mark.parametrize(
    ("found", "kind", "said"),
    [
        (HERE._replace(python="3.9"), ConfigurationError, "worker-1 has Python 3.9"),
        (HERE._replace(checkback="0.0.1"), ConfigurationError, "Checkback 0.0.1"),
        (HERE._replace(secrets="/etc/s.toml: No such file"), ConfigurationError, "/etc/s.toml: No such file"),
        (HERE._replace(kafka="Local: Broker transport failure"), JobFailedError, "does not reach Kafka at broker:9092"),
    ],
)
def test_what_an_executor_lacks_is_named(found: Found, kind: type[CheckbackError], said: str) -> None:
    with pytest.raises(kind, match=said):
        refuse_unlike(found, "broker:9092")


def test_one_that_lacks_nothing_is_taken() -> None:
    refuse_unlike(HERE, "broker:9092")


def test_an_executor_says_what_it_finds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streaming.executors._KAFKA_SECONDS", 0.5)
    rows = pa.RecordBatch.from_pydict({"id": [1]})
    missing = str(tmp_path / "secrets.toml")
    (found,) = _look(iter([rows]), {"bootstrap.servers": "127.0.0.1:1"}, missing)
    one = Found(*(column[0].as_py() for column in found.columns))
    assert (one.python, one.checkback) == (HERE.python, HERE.checkback)
    assert one.kafka
    assert one.secrets == f"{missing}: No such file or directory"
