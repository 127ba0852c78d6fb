"""Whoever connects to ports of this machine, by accident or to scan them, ends no batch."""

import contextlib
import socket
import threading
from collections.abc import Iterator

import psutil
from pyspark.sql import SparkSession


def ports() -> set[int]:
    """Where Spark's Java, a child of this process, listens."""
    found: set[int] = set()
    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            if child.name() == "java":
                found |= {one.laddr.port for one in child.net_connections("tcp") if one.status == psutil.CONN_LISTEN}
    return found


@contextlib.contextmanager
def somebody_connects() -> Iterator[None]:
    """To each port that is new, with bytes that mean nothing to who listens there."""
    known, done = ports(), threading.Event()

    def knock() -> None:
        while not done.is_set():
            for port in ports() - known:
                with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1) as here:
                    here.sendall(b"\0\0\0\4what")

    thread = threading.Thread(target=knock)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def test_no_result_goes_through_a_port(spark: SparkSession) -> None:
    frame = spark.range(2000).mapInPandas(lambda frames: frames, "id long")
    with somebody_connects():
        assert all(len(frame.collect()) == 2000 for _ in range(20))
