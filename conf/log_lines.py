"""What long-running commands print: a line for each event, for people or for programs that gather logs."""

import json
import logging
import sys
import time
from typing import TextIO

from checkback.wire.printable import printable
from conf.settings import LogSettings

FIELDS = "fields"
"""``logger.info(..., extra={FIELDS: {...}})``: what a JSON line has beside its message."""


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


class _Stdout(logging.StreamHandler[TextIO]):
    """The handler of :func:`log_to_stdout`, by which it is known."""


class _JsonLines(logging.Formatter):
    """``{"time": "2026-11-22T09:30:00.123Z", "level": "info", "logger": "streaming.running", "message": "..."}``."""

    def format(self, record: logging.LogRecord) -> str:
        seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line = {
            "time": f"{seconds}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, FIELDS, {}),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=True, default=str)


def is_for_people(settings: LogSettings) -> bool:
    """Whether lines are text, not JSON."""
    return settings.format == "text" or (settings.format == "auto" and sys.stdout.isatty())


def log_to_stdout(settings: LogSettings | None = None) -> None:
    """Have what is logged from now on printed; of Kafka's clients nothing, since we say what is wrong.

    For people where standard output is a terminal and otherwise as JSON, unless the settings say which.
    """
    settings = settings or LogSettings(format="text")
    handler = _Stdout(sys.stdout)
    handler.setFormatter(_Lines() if is_for_people(settings) else _JsonLines())
    logging.getLogger().addHandler(handler)
    for ours in ("access", "checkback", "checkback_cli", "checkers", "gateway", "status_page", "streaming"):
        logging.getLogger(ours).setLevel(settings.level)
    logging.getLogger("kafka").setLevel(logging.CRITICAL)  # a line for each attempt to connect


def last_line(text: str) -> str | None:
    """What ends a command, as a line of its log; None when nothing is logged: then it is said to a person alone."""
    for handler in logging.getLogger().handlers:
        if isinstance(handler, _Stdout):
            record = logging.LogRecord("checkback_cli", logging.ERROR, __file__, 0, text, None, None)
            # whoever sends standard output into a file reads standard error
            return (_Lines() if sys.stderr.isatty() else handler).format(record)
    return None
