"""Tasks that Spark has given up: their workers end without a word."""

from typing import Any

from pyspark import daemon


def end_quietly() -> None:
    """For the daemon, before it forks.

    A job that is stopped closes the connections to its workers. PySpark then prints a traceback of each that was just
    at work, which is no error of anybody's: whatever it is, Spark says it itself.
    """
    of_pyspark = daemon.worker

    def worker(sock: Any, authenticated: bool) -> int:  # noqa: FBT001  (PySpark calls it so)
        try:
            return int(of_pyspark(sock, authenticated))
        except (BrokenPipeError, ConnectionResetError):
            return 1  # and not again

    daemon.worker = worker
