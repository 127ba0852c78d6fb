"""Which addresses may be asked, and that a name leads to no others."""

import asyncio
import socket

import pytest
from aiohttp.abc import ResolveResult

from checkers import AdmittedResolver, AllowList
from checkers.admission import FOUND
from checkers.names import Address


@pytest.mark.parametrize(
    "address", ["127.0.0.1", "::1", "10.0.0.7", "192.168.1.1", "8.8.8.8", "2001:db8::1", "fd00::1"]
)
def test_without_a_list_ordinary_addresses_are_admitted(address: str) -> None:
    assert AllowList([]).refusal("shop", address) is None


NEVER = [
    "0.0.0.0",  # noqa: S104  (nothing is bound: it must be refused)
    *("169.254.169.254", "169.254.0.1", "0.1.2.3", "224.0.0.1", "239.1.1.1", "255.255.255.255"),
    *("::", "fe80::1", "fe80::1%eth0", "febf::1", "ff02::1", "fd00:ec2::254"),
    *("::ffff:169.254.169.254", "::ffff:0.0.0.0", "64:ff9b::a9fe:a9fe", "2002:a9fe:a9fe::1"),
]


@pytest.mark.parametrize("address", NEVER)
@pytest.mark.parametrize("allowed", [[], ["*"], ["shop"], ["10.0.0.0/8"]])
def test_these_are_not_not_even_under_a_listed_name(address: str, allowed: list[str]) -> None:
    refusal = AllowList(allowed).refusal("shop", address)
    assert refusal == f"shop is at {address}, a link-local, multicast or unspecified address"


def test_a_listed_network_opens_even_these() -> None:
    assert AllowList(["169.254.0.0/16"]).refusal("shop", "169.254.10.1") is None
    assert AllowList(["169.254.0.0/16"]).refusal("shop", "::ffff:169.254.10.1") is None


@pytest.mark.parametrize(
    ("allowed", "host", "address", "admitted"),
    [
        (["10.0.0.0/8"], "shop", "10.1.2.3", True),
        (["10.0.0.0/8"], "shop", "11.1.2.3", False),
        (["10.0.0.0/8"], "shop", "::ffff:10.1.2.3", True),
        (["10.0.0.7"], "shop", "10.0.0.7", True),
        (["10.0.0.7"], "shop", "10.0.0.8", False),
        (["2001:db8::/32"], "shop", "2001:db8::1", True),
        (["2001:db8::/32"], "shop", "10.0.0.1", False),
        (["shop.internal"], "SHOP.internal.", "10.0.0.1", True),
        (["*.internal"], "a.shop.internal", "10.0.0.1", True),
        (["*.internal"], "internal", "10.0.0.1", False),
        (["*.internal"], "shop.internal.evil.example", "10.0.0.1", False),
        (["shop?"], "shop1", "10.0.0.1", True),
        (["shop", "192.168.0.0/16"], "other", "192.168.1.1", True),
        (["shop", "192.168.0.0/16"], "other", "127.0.0.1", False),
    ],
)
def test_a_list_admits_names_and_networks(allowed: list[str], host: str, address: str, admitted: bool) -> None:  # noqa: FBT001  (pytest gives it by name)
    assert (AllowList(allowed).refusal(host, address) is None) is admitted


def resolved(allowed: list[str], *addresses: str) -> list[ResolveResult]:
    """What the resolver makes of a name that has these addresses."""

    async def asked() -> list[ResolveResult]:
        FOUND.set([Address(socket.AF_INET6 if ":" in one else socket.AF_INET, 6, one) for one in addresses])
        return await AdmittedResolver(AllowList(allowed)).resolve("shop", 80, socket.AF_UNSPEC)

    return asyncio.run(asked())


def test_a_name_leads_to_its_admitted_addresses_only() -> None:
    found = resolved([], "169.254.169.254", "10.0.0.1", "fe80::1", "2001:db8::1")
    assert [(one["hostname"], one["host"], one["port"]) for one in found] == [
        ("shop", "10.0.0.1", 80),
        ("shop", "2001:db8::1", 80),
    ]
    # numeric: whoever connects asks no name server again
    assert all(one["flags"] & socket.AI_NUMERICHOST for one in found)


def test_a_name_without_one_is_refused_with_the_reason() -> None:
    with pytest.raises(OSError, match=r"shop is at 169\.254\.169\.254"):
        resolved([], "169.254.169.254")
    with pytest.raises(OSError, match=r"shop at 10\.0\.0\.1 is not in checks\.allowed_hosts"):
        resolved(["192.168.0.0/16"], "10.0.0.1", "10.0.0.2")
