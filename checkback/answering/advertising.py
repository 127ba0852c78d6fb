"""The URL under which a check endpoint is announced: one that others can reach."""

from base64 import b64encode
from collections.abc import Mapping
from contextlib import closing
from http.client import HTTPConnection, HTTPException
from ipaddress import IPv6Address, ip_address
from urllib.parse import unquote, urlsplit

from checkback.exceptions import ConfigurationError

PROBE = b'{"version": 1000000}'
"""Each check endpoint refuses this version, and calls no listener."""
_SHOWN_BYTES = 100
_SHOWN_CHARACTERS = 200


def is_wildcard(host: str) -> bool:
    """Whether a host means "all of this machine's addresses": it can be listened at, and not be asked."""
    try:
        return ip_address(host.strip("[]")).is_unspecified
    except ValueError:
        return host == ""


def announced_url(host: str, port: int, advertised: str | None = None) -> str:
    """The URL of an endpoint that listens at ``host`` and ``port``.

    ``advertised`` overrides it: a host, ``host:port``, or a whole URL, as the check service is to use it. Without a
    port it is the one listened at. An IPv6 address may stand in brackets, and must where a port follows.

    Raises:
        ConfigurationError: nobody could ask at this address.
    """
    if advertised is None:
        if is_wildcard(host):
            raise ConfigurationError(
                f"The check endpoint listens at {host!r}, which is every address of this machine and none that anybody "
                "can ask: say in advertised= at which host, host:port or URL the job's machine reaches it."
            )
        advertised = host
    url = advertised if "://" in advertised else _url(advertised, port)
    refuse_unreachable(url)
    return url


def refuse_unreachable(url: str) -> None:
    """Refuse a URL that no check service would ask.

    Raises:
        ConfigurationError: it is not http:// or https:// with a host and a valid port, or the host is a wildcard.
    """
    try:
        parts = urlsplit(url)
        # urlsplit drops line ends; others that read the announcement do not
        plain = url.isprintable() and " " not in url
        valid = plain and parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:  # brackets, a port that is none
        valid = False
    if not valid:
        raise ConfigurationError(
            f"{url!r} cannot be announced: give http:// or https://, a host, and a port if needed, without spaces."
        )
    if is_wildcard(parts.hostname or ""):
        raise ConfigurationError(
            f"{url!r} cannot be announced: nobody can ask at {parts.hostname}; give an address at which the job's "
            "machine reaches it."
        )


def foreign_answer(http: HTTPConnection, url: str, headers: Mapping[str, str] | None = None) -> str:
    """Send :data:`PROBE` and describe what answers in place of a check endpoint; empty: a check endpoint answers.

    ``headers`` sign the probe, or are empty because the group has no key. Without them the key is not known, and 401
    may come from a check endpoint that has one. The connection is closed.

    Raises:
        OSError: no answer.
    """
    parts = urlsplit(url)
    sent = {"Content-Type": "application/json", **(headers or {})}
    if parts.username is not None:
        credentials = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        sent["Authorization"] = f"Basic {b64encode(credentials.encode()).decode()}"
    try:
        with closing(http):
            http.request("POST", parts._replace(scheme="", netloc="", path=parts.path or "/").geturl(), PROBE, sent)
            response = http.getresponse()
            body = response.read1(_SHOWN_BYTES)
    except HTTPException as error:
        return f"no HTTP: {' '.join(str(error).split())}"
    shown = body.lstrip()[:1]
    refused = response.status in {400, 422} or (response.status == 401 and headers is None)
    if response.status == 500 or (refused and shown != b"<") or (response.status == 200 and shown == b"{"):
        return ""
    return described_response(response.status, response.headers.get("Location", ""), body)


def described_response(status: int, location: str, body: bytes) -> str:
    """A response at the application's own URL, for its own log: status, target of a redirect, first bytes."""
    shown = " ".join(body[:_SHOWN_BYTES].decode(errors="replace").split())
    redirect = f" to {location[:_SHOWN_CHARACTERS]}" if location else ""
    return f"status {status}{redirect}, {repr(shown) if shown else 'no body'}"


def _url(place: str, port: int) -> str:
    try:
        whole = ip_address(place)
    except ValueError:  # a name, a port behind it, or brackets
        bare = place.rpartition("]")[2] if place.startswith("[") else place
        return f"http://{place}/" if ":" in bare else f"http://{place}:{port}/"
    return f"http://[{whole}]:{port}/" if isinstance(whole, IPv6Address) else f"http://{whole}:{port}/"
