"""Why a question to an endpoint failed, in words for people."""

import os
import socket
import ssl

import aiohttp


def reason(error: Exception) -> str:
    """What to say of an error of the HTTP client. The endpoint's address stands before it, so it is not repeated."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        certificate = error.certificate_error
        said = certificate.verify_message if isinstance(certificate, ssl.SSLCertVerificationError) else str(certificate)
        return f"its certificate is not accepted: {said}"
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return error.os_error.strerror or str(error.os_error)  # of our own resolver, which says which host is not allowed, and why
    if isinstance(error, aiohttp.ClientConnectorError):
        refused = error.os_error
        # asyncio puts the address in the place of the reason
        return f"no connection: {os.strerror(refused.errno) if _is_of_system(refused) else refused.strerror or refused}"
    if isinstance(error, socket.gaierror):
        return f"host name not found: {error.strerror}"
    if isinstance(error, aiohttp.ConnectionTimeoutError):
        return "no connection in time"
    if isinstance(error, TimeoutError):
        return "no complete answer in time"
    if isinstance(error, aiohttp.InvalidURL):
        return error.description or "not a URL"
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return "closed the connection without an answer"
    if isinstance(error, aiohttp.ClientPayloadError):
        return "the answer broke off"
    if isinstance(error, aiohttp.ClientResponseError):
        return f"the answer is not valid HTTP: {' '.join(error.message.split())}"
    return f"{type(error).__name__}: {error}"


def _is_of_system(error: OSError) -> bool:
    return not isinstance(error, ssl.SSLError) and error.errno is not None and error.errno > 0
