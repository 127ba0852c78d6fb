"""Why a question to an endpoint failed, in words for people."""

import os
import socket
import ssl

import aiohttp
from aiohttp.http_exceptions import HttpProcessingError

MOST_AROUND_BODY = 16 * 1024
"""Bytes of an answer that are not its body."""
TOO_MUCH = f"more than {MOST_AROUND_BODY // 1024} KiB of it are not its body"
_WORDS: tuple[tuple[type[Exception], str], ...] = (
    (aiohttp.ConnectionTimeoutError, "no connection in time"),
    (TimeoutError, "no complete answer in time"),
    (aiohttp.ServerDisconnectedError, "closed the connection without an answer"),
    (aiohttp.ClientPayloadError, "the answer broke off"),
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
