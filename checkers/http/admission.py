"""Which addresses the check service connects to.

Anyone who may write to ``cb.producers`` names URLs, and the check service stands inside the network. So an address is
judged after its name was resolved, and the connection goes to the very address that was judged: a name that resolves
differently a moment later (DNS rebinding) gains nothing.
"""

import errno
import re
import socket
import unicodedata
from collections.abc import Sequence
from contextvars import ContextVar
from fnmatch import fnmatchcase
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from aiohttp.abc import AbstractResolver, ResolveResult

from checkers.http.names import Address as NamedAddress

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

_NOBODY = "a link-local, multicast or unspecified address"
_CLOUD = "an address of a cloud's own services"
_ANYWHERE = "a NAT64 address, of which nobody here knows where it leads"

# Never asked, unless a network in checks.allowed_hosts covers it: nobody's endpoint is there, but clouds' metadata is.
_NEVER: list[tuple[Network, str]] = [
    (ip_network(text), reason)
    for reason, texts in {
        _NOBODY: (
            *("0.0.0.0/8", "169.254.0.0/16", "224.0.0.0/4", "255.255.255.255/32"),
            *("::/128", "fe80::/10", "ff00::/8"),
        ),
        _CLOUD: (
            "100.100.100.200/32",  # Alibaba Cloud
            "168.63.129.16/32",  # Azure
            *("192.0.0.192/32", "fd00:c1::a9fe:a9fe/128"),  # Oracle
            "fd00:ec2::/32",  # AWS: metadata, pod identity, DNS, time
            "fd20:ce::254/128",  # Google
            "fd00:42::42/128",  # Scaleway
            "fd00:a9fe:a9fe::1/128",  # Akamai (Linode)
        ),
        # Of a network's own choice (RFC 8215), and so is where in it the IPv4 address stands.
        _ANYWHERE: ("64:ff9b:1::/48",),
    }.items()
    for text in texts
]

# The IPv4 address is the last 32 bits: NAT64, IPv4-translated, and (:: and ::1 are none) IPv4-compatible.
_ENDS_IN_IPV4 = [ip_network(text) for text in ("64:ff9b::/96", "::ffff:0:0:0/96", "::/96")]
_ISATAP = (0x0000_5EFE, 0x0200_5EFE)

# As browsers have it (WHATWG URL, "ends in a number"): such a host is an address or nothing, but never a name.
_NUMBER = re.compile(r"\d+|0x[0-9a-f]*")


class AddressRefusedError(OSError):
    """An address the settings do not admit."""

    def __init__(self, reason: str) -> None:
        super().__init__(errno.EACCES, reason)


class AllowList:
    """Host names, patterns of them (``*.shops.internal``), and networks. Empty: everything but what is never asked."""

    def __init__(self, allowed: Sequence[str]) -> None:
        self._networks: list[Network] = []
        self._patterns: list[str] = []
        for entry in allowed:
            try:
                self._networks.append(ip_network(entry))
            except ValueError:
                self._patterns.append(_plain(entry))

    def refusal(self, host: str, address: str) -> str | None:
        """Why a host at this address is not asked, or None.

        A name that is listed does not open the addresses that are never asked; only a network does.
        """
        found = _embedded(ip_address(address))
        if any(found in network for network in self._networks):
            return None
        for network, reason in _NEVER:
            if found in network:
                return f"{host} is at {address}, {reason}"
        if not (self._networks or self._patterns):
            return None
        if any(fnmatchcase(_plain(host), pattern) for pattern in self._patterns):
            return None
        return f"{host} at {address} is not in checks.allowed_hosts"

    def refusal_of_literal(self, host: str) -> str | None:
        """Why a host that is written as a number is not asked, or None, also for a name: that is judged once resolved.

        Only an IPv4 address of four decimal numbers and a whole IPv6 address are taken. The notations beside (127.1,
        0x7f000001, 017700000001, 2130706433) are what a resolver makes of them, and no two make the same.
        """
        try:
            return self.refusal(host, str(ip_address(host)))
        except ValueError:
            return f"{host} is not a way to write an address: write four decimal numbers" if _numeric(host) else None


def _plain(host: str) -> str:
    return host.lower().rstrip(".")


def _numeric(host: str) -> bool:
    written = unicodedata.normalize("NFKC", host).replace("\u3002", ".")  # as whoever resolves names may read it
    return _NUMBER.fullmatch(_plain(written).rpartition(".")[2]) is not None


def _embedded(address: Address) -> Address:
    """The IPv4 address that an IPv6 one stands for, if it does: the kernel or a gateway will use that one."""
    if isinstance(address, IPv4Address):
        return address
    address = IPv6Address(int(address))  # without the interface of a link-local one
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address.sixtofour is not None:
        return address.sixtofour
    if address.teredo is not None:
        return address.teredo[1]
    last = int(address) & 0xFFFF_FFFF
    in_last = any(address in network for network in _ENDS_IN_IPV4) and int(address) > 1
    if in_last or (int(address) >> 32) & 0xFFFF_FFFF in _ISATAP:
        return IPv4Address(last)
    return address


FOUND: ContextVar[Sequence[NamedAddress]] = ContextVar("FOUND", default=())
"""Addresses of the host that the running task is about to ask: :mod:`checkers.http.names` has found them."""


class AdmittedResolver(AbstractResolver):
    """Gives aiohttp those addresses of a name that are admitted, out of those found; it connects to these."""

    def __init__(self, allowed: AllowList) -> None:
        self._allowed = allowed

    async def resolve(
        self,
        host: str,
        port: int = 0,
        family: socket.AddressFamily = socket.AF_INET,  # noqa: ARG002  (all families)
    ) -> list[ResolveResult]:
        """Addresses of a host.

        Raises:
            AddressRefusedError: it has addresses, and none is admitted; or it is an address in an odd notation.
            OSError: it has none.
        """
        refusal = self._allowed.refusal_of_literal(host)
        if refusal is not None:
            raise AddressRefusedError(refusal)
        reasons: list[str] = []
        admitted: list[ResolveResult] = []
        for its_family, protocol, address in FOUND.get():
            reason = self._allowed.refusal(host, address)
            if reason is not None:
                reasons.append(reason)
                continue
            numeric = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV
            admitted.append(
                ResolveResult(hostname=host, host=address, port=port, family=its_family, proto=protocol, flags=numeric)
            )
        if reasons and not admitted:
            raise AddressRefusedError(reasons[0])
        return admitted

    async def close(self) -> None:
        """Nothing is held."""
