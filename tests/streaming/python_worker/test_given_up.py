"""A worker whose task Spark has given up ends without a traceback; any other error is PySpark's to print."""

from collections.abc import Iterator
from typing import Any

import pytest
from pyspark import daemon

from streaming.python_worker.given_up import end_quietly


@pytest.fixture
def restored() -> Iterator[None]:
    before = daemon.worker
    yield
    daemon.worker = before


def raising(error: Exception | None) -> Any:
    def worker(_sock: Any, authenticated: object) -> int:
        if error is not None:
            raise error
        return 0

    return worker


def ended() -> int:
    worker: Any = daemon.worker
    return int(worker(None, authenticated=True))


@pytest.mark.parametrize(("error", "code"), [(None, 0), (BrokenPipeError(), 1), (ConnectionResetError(), 1)])
def test_a_connection_that_is_gone_is_no_error(restored: None, error: Exception | None, code: int) -> None:
    daemon.worker = raising(error)
    end_quietly()
    assert ended() == code


def test_another_error_is_one(restored: None) -> None:
    daemon.worker = raising(OSError("disk"))
    end_quietly()
    with pytest.raises(OSError, match="disk"):
        ended()
