"""Which addresses the check service connects to.

Anyone who may write to ``cb.producers`` names URLs, and the check service stands inside the network. So an address is
judged after its name was resolved, and the connection goes to the very address that was judged: a name that resolves
differently a moment later (DNS rebinding) gains nothing.
"""

import errno
import socket
from collections.abc import Sequence
from contextvars import ContextVar
from fnmatch import fnmatchcase
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from aiohttp.abc import AbstractResolver, ResolveResult

from checkers.names import Address as NamedAddress

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

# Never asked, unless a network in checks.allowed_hosts covers it: nobody's endpoint is there, but clouds' metadata is.
_NEVER = [ip_network(text) for text in ("0.0.0.0/8", "169.254.0.0/16", "224.0.0.0/4", "255.255.255.255/32")] + [
    ip_network(text) for text in ("::/128", "fe80::/10", "ff00::/8", "fd00:ec2::254/128")
]
_NAT64 = ip_network("64:ff9b::/96")


class RefusedError(OSError):
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
        if any(found in network for network in _NEVER):
            return f"{host} is at {address}, a link-local, multicast or unspecified address"
        if not (self._networks or self._patterns):
            return None
        if any(fnmatchcase(_plain(host), pattern) for pattern in self._patterns):
            return None
        return f"{host} at {address} is not in checks.allowed_hosts"


def _plain(host: str) -> str:
    return host.lower().rstrip(".")


def _embedded(address: Address) -> Address:
    """The IPv4 address that an IPv6 one stands for, if it does: the kernel or a gateway will use that one."""
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return address.ipv4_mapped
        if address.sixtofour is not None:
            return address.sixtofour
        if address in _NAT64:
            return IPv4Address(int(address) & 0xFFFF_FFFF)
        if address.scope_id is not None:
            return IPv6Address(int(address))
    return address


FOUND: ContextVar[Sequence[NamedAddress]] = ContextVar("FOUND", default=())
"""Addresses of the host that the running task is about to ask: :mod:`checkers.names` has found them."""


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
            RefusedError: it has addresses, and none is admitted.
            OSError: it has none.
        """
        reasons: list[str] = []
        admitted: list[ResolveResult] = []
        for its_family, protocol, address in FOUND.get():
            reason = self._allowed.refusal(host, address)
            if reason is not None:
                reasons.append(reason)
                continue
            admitted.append(
                ResolveResult(
                    hostname=host,
                    host=address,
                    port=port,
                    family=its_family,
                    proto=protocol,
                    flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
                )
            )
        if reasons and not admitted:
            raise RefusedError(reasons[0])
        return admitted

    async def close(self) -> None:
        """Nothing is held."""
