"""The URL under which a check endpoint is announced: one that others can reach."""

from ipaddress import IPv6Address, ip_address
from urllib.parse import urlsplit

from checkback.exceptions import ConfigurationError


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
        valid = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:  # brackets, a port that is none
        valid = False
    if not valid:
        raise ConfigurationError(
            f"{url!r} cannot be announced: give http:// or https://, a host, and a port if needed."
        )
    if is_wildcard(parts.hostname or ""):
        raise ConfigurationError(
            f"{url!r} cannot be announced: nobody can ask at {parts.hostname}; give an address at which the job's "
            "machine reaches it."
        )


def _url(place: str, port: int) -> str:
    try:
        whole = ip_address(place)
    except ValueError:  # a name, a port behind it, or brackets
        bare = place.rpartition("]")[2] if place.startswith("[") else place
        return f"http://{place}/" if ":" in bare else f"http://{place}:{port}/"
    return f"http://[{whole}]:{port}/" if isinstance(whole, IPv6Address) else f"http://{whole}:{port}/"
