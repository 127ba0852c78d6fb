"""What stands before every page: by which names it may be asked for, what browsers may do with it, and no exception
gets out of it.
"""

import logging
import math
import time
from collections.abc import Iterable

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from checkback.answering.listening import OwnNames
from checkback.wire.printable import printable

_LOGGER = logging.getLogger(__name__)
_LOG_SECONDS = 60.0

_HEADERS = {
    "content-security-policy": (
        "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; "
        "frame-ancestors 'none'"
    ),
    "x-frame-options": "DENY",
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}


class Guard:
    """``names``: see :class:`~checkback.answering.listening.OwnNames`."""

    def __init__(self, app: ASGIApp, names: Iterable[str] = ()) -> None:
        self._app = app
        self._names = OwnNames(names)
        self._log_at = -math.inf

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, whatever happens."""
        if scope["type"] != "http":
            return
        begun = False

        async def guarded(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                headers = MutableHeaders(scope=message)
                headers.update(_HEADERS)
                headers.setdefault("cache-control", "no-store")
            await send(message)

        refused = self._refused(scope)
        try:
            await (refused or self._app)(scope, receive, guarded)
        except Exception as error:  # noqa: BLE001  (nobody but the page is to hear of it)
            self._log(scope["path"], error)
            if not begun:
                said = "This page could not be made. The job goes on; its log says what was wrong.\n"
                await PlainTextResponse(said, 500)(scope, receive, guarded)

    def _refused(self, scope: Scope) -> Response | None:
        hosts = Headers(scope=scope).getlist("host")
        if len(hosts) != 1:
            return PlainTextResponse("A request needs one Host header.\n", 400)
        if self._names.know(hosts[0], (scope.get("server") or ("",))[0]):
            return None
        said = f"The status page does not know {printable(hosts[0])!r} as a name of this machine."
        return PlainTextResponse(f"{said} If it is one, add it to http.names, and start the job again.\n", 421)

    def _log(self, path: str, error: Exception) -> None:
        now = time.monotonic()
        if now - self._log_at >= _LOG_SECONDS:
            self._log_at = now
            said = "The page %s could not be made; said at most once a minute."
            _LOGGER.error(said, printable(path), exc_info=error)
