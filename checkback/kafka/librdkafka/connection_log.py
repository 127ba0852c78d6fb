"""Lost connections of a librdkafka client, which its debug log alone shows."""

import logging
import re
from collections.abc import Mapping
from typing import Any

_LOGGER = logging.getLogger(__name__)
_CONNECTION_LOST = r"\S*: Broker changed state (?:UP|REAUTH|AUTH_\w+) -> DOWN"
"""A lost connection in librdkafka's log, category ``STATE``. The library writes this line before it repeats a request.
A connection that authenticates again passes the AUTH states, perhaps with requests under way.
Its ``FAIL`` line does not serve: librdkafka suppresses a second identical one within 30 s."""
_LEVELS = (logging.CRITICAL,) * 3 + (logging.ERROR, logging.WARNING, logging.INFO, logging.INFO, logging.DEBUG)
"""Python's level for each syslog level, as confluent-kafka maps them."""


class ConnectionLog:
    """A logger that notices lost connections, to one ``broker`` or any, and passes on what the settings ask for."""

    def __init__(self, settings: Mapping[str, Any], broker: str = "") -> None:
        self.lost = False
        self._pattern = re.compile(re.escape(broker) + _CONNECTION_LOST)
        self._debug = str(settings.get("debug", ""))
        level = str(settings.get("log_level", 6))
        self._least = logging.DEBUG if self._debug else _LEVELS[int(level) % len(_LEVELS) if level.isdigit() else 6]
        self._logger = settings.get("logger", _LOGGER)

    def settings(self) -> dict[str, Any]:
        """Settings of a client whose lines come here, when the client is polled."""
        debug = ",".join(filter(None, [self._debug, "broker"]))
        return {"log_level": len(_LEVELS) - 1, "debug": debug, "log.connection.close": True, "logger": self}

    def log(self, level: int, form: str, *parts: object) -> None:
        """A line of librdkafka's log; ``level`` is Python's."""
        if parts and self._pattern.search(str(parts[-1])):
            self.lost = True
        if level >= self._least:
            self._logger.log(level, form, *parts)
