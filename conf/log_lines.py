"""What long-running commands print: a line for each event, with its time and level."""

import logging
import sys
import time

from checkback.printable import printable


class _Lines(logging.Formatter):
    """``2026-11-22 09:30:00.123Z INFO    Running``; UTC, so that lines of several machines can be laid side by side."""

    converter = staticmethod(time.gmtime)
    default_time_format = "%Y-%m-%d %H:%M:%S"
    default_msec_format = "%s.%03dZ"

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  (logging's name)
        record.message = printable(record.message)
        return super().formatMessage(record)


def log_to_stdout() -> None:
    """Have what is logged from now on printed, from INFO; of Kafka's clients nothing, since we say what is wrong."""
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(_Lines())
    logging.getLogger().addHandler(handler)
    for ours in ("checkback", "checkback_cli", "checkers", "streaming"):
        logging.getLogger(ours).setLevel(logging.INFO)
    logging.getLogger("kafka").setLevel(logging.CRITICAL)  # a line for each attempt to connect
