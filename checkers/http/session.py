"""The HTTP client of the check service, as the settings want it, and why a question failed, in words for people."""

import os
import socket
import ssl
from functools import partial
from typing import Any

import aiohttp
from aiohttp.client_proto import ResponseHandler
from aiohttp.http_exceptions import HttpProcessingError

from checkback.exceptions import ConfigurationError
from checkers.http.admission import AdmittedResolver, AllowList
from conf.settings import CheckSettings

_KEEP_ALIVE_SECONDS = 4.0  # less than uvicorn's 5: a question must not meet a connection that is just being closed
_HEADER_BYTES = 8 * 1024
_HEADERS = 64
_CALL_BYTES = 8  # what each piece that comes costs of these, apart from its content
_PARSED_AT_ONCE = 4 * 1024
MOST_AROUND_BODY = 16 * 1024
"""Bytes of an answer that are not its body."""
TOO_MUCH = f"more than {MOST_AROUND_BODY // 1024} KiB of it are not its body"
_WORDS: tuple[tuple[type[Exception], str], ...] = (
    (aiohttp.ConnectionTimeoutError, "no connection in time"),
    (TimeoutError, "no complete answer in time"),
    (aiohttp.ServerDisconnectedError, "closed the connection without an answer"),
    (aiohttp.ClientPayloadError, "the answer broke off"),
)


def tls_context(checks: CheckSettings) -> ssl.SSLContext:
    """How https endpoints are verified, and what they are shown.

    Raises:
        ConfigurationError: a file is missing, or is not what it should be.
    """
    try:
        context = ssl.create_default_context(cafile=checks.tls_ca or None)
        if checks.tls_certificate:
            context.load_cert_chain(checks.tls_certificate, checks.tls_key or None, password=lambda: "")
    except (OSError, ValueError) as error:  # SSLError is an OSError
        raise ConfigurationError(
            f"checks.tls_ca, checks.tls_certificate or checks.tls_key cannot be used: {error}."
        ) from error
    return context


class _BoundedAnswer(ResponseHandler):
    """Reads no more than 16 KiB of an answer beside its body: head, informational answers, what separates chunks.

    A byte of these costs up to a hundred times as much to parse as one of a body, on the loop that all groups share.
    """

    _received = 0

    def set_response_params(self, **params: Any) -> None:
        """Begin another answer."""
        self._received = 0
        super().set_response_params(**params)

    def data_received(self, data: bytes) -> None:
        """Parse what has come, until it is too much."""
        self._received += _CALL_BYTES
        for at in range(0, 0 if self._eof else len(data) or 1, _PARSED_AT_ONCE):
            piece = data[at : at + _PARSED_AT_ONCE]
            super().data_received(piece)
            self._received += len(piece)
            if self._received - getattr(self._payload, "total_bytes", 0) > MOST_AROUND_BODY:
                error = HttpProcessingError(message=TOO_MUCH)
                self.set_exception(error)
                if self._payload is not None:
                    self._payload.set_exception(error)
                self._payload = None  # it keeps this error when the connection ends
                if self.transport is not None:
                    self.transport.abort()
                return


class BoundedConnector(aiohttp.TCPConnector):
    """Knows when it keeps as many idle connections as it may: the next request is then to close its own."""

    def __init__(self, most_idle: int, **options: Any) -> None:
        super().__init__(**options)
        self._most_idle = most_idle
        self._factory = partial(_BoundedAnswer, loop=self._loop)  # type: ignore[assignment]  # a subclass

    @property
    def full(self) -> bool:
        """Whether one more kept connection would be one too many."""
        # There is no public way to ask; a list for each address, none of them empty.
        return len(self._conns) >= self._most_idle or sum(map(len, self._conns.values())) >= self._most_idle


def open_session(
    checks: CheckSettings, allowed: AllowList, tls: ssl.SSLContext, idle: int = 100
) -> aiohttp.ClientSession:
    """A client that connects to admitted addresses only, follows nothing, and waits no longer than it may.

    Must be called on the loop that uses it. It keeps at most ``idle`` connections for the next request; how many are in
    use is for the caller to bound.
    """
    wait = checks.ask_timeout / 1000
    return aiohttp.ClientSession(
        connector=BoundedConnector(
            idle,
            resolver=AdmittedResolver(allowed),
            ssl=tls,
            limit=0,  # each group has its share, which it waits for elsewhere
            use_dns_cache=False,  # checkers.http.names has one
            keepalive_timeout=_KEEP_ALIVE_SECONDS,
        ),
        # sock_read bounds each wait for bytes, total their sum: connecting has a bound of its own, hence twice
        timeout=aiohttp.ClientTimeout(total=2 * wait, connect=wait, sock_read=wait),
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,
        trust_env=False,
        max_line_size=_HEADER_BYTES,
        max_field_size=_HEADER_BYTES,
        max_headers=_HEADERS,
    )


def reason(error: Exception) -> str:
    """What to say of an error of the HTTP client. The endpoint's address stands before it, so it is not repeated."""
    if isinstance(error, aiohttp.ClientConnectorError):
        return _unconnected(error)
    if isinstance(error, socket.gaierror):
        return f"host name not found: {error.strerror}"
    if isinstance(error, aiohttp.InvalidURL):
        return error.description or "not a URL"
    if isinstance(error, aiohttp.ClientResponseError | HttpProcessingError):
        # the library's message quotes the answer, which may be another service's
        return f"the answer is not valid HTTP{f': {TOO_MUCH}' if error.message == TOO_MUCH else ''}"
    return next((said for kind, said in _WORDS if isinstance(error, kind)), f"{type(error).__name__}: {error}")


def _unconnected(error: aiohttp.ClientConnectorError) -> str:
    cause = error.os_error
    if isinstance(cause, ssl.SSLCertVerificationError):
        return f"its certificate is not accepted: {cause.verify_message}"
    said = cause.strerror or str(cause)
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return said  # of our own resolver: which host is not allowed, and why
    if cause.errno is not None and cause.errno > 0 and not isinstance(cause, ssl.SSLError):
        said = os.strerror(cause.errno)  # asyncio has the address in the place of the reason
    return f"no connection: {said}"
