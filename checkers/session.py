"""The HTTP client of the check service, as the settings want it."""

import asyncio
import ssl
from concurrent.futures import ThreadPoolExecutor

import aiohttp

from checkback.exceptions import ConfigurationError
from checkers.admission import AdmittedResolver, AllowList
from conf.settings import CheckSettings

_KEEP_ALIVE_SECONDS = 4.0  # less than uvicorn's 5: a question must not meet a connection that is just being closed
_NAMES_KEPT_SECONDS = 10
_RESOLVERS = 32  # threads: names that take long to resolve hold up no others
_HEADER_BYTES = 8 * 1024
_HEADERS = 64


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


def open_session(checks: CheckSettings, allowed: AllowList, tls: ssl.SSLContext) -> aiohttp.ClientSession:
    """A client that connects to admitted addresses only, follows nothing, and waits no longer than it may.

    Must be called on the loop that uses it.
    """
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(_RESOLVERS, "checks-resolve"))
    wait = checks.ask_timeout / 1000
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(
            resolver=AdmittedResolver(allowed),
            ssl=tls,
            limit=0,  # each group has its own bound
            ttl_dns_cache=_NAMES_KEPT_SECONDS,
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
