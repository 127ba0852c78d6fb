"""Which addresses may be asked, and that a name leads to no others."""

import asyncio
import socket

import pytest
from aiohttp.abc import ResolveResult

from checkers.http.admission import FOUND, AdmittedResolver, AllowList
from checkers.http.names import Address


@pytest.mark.parametrize(
    "address", ["127.0.0.1", "::1", "10.0.0.7", "192.168.1.1", "8.8.8.8", "2001:db8::1", "fd00::1"]
)
def test_without_a_list_ordinary_addresses_are_admitted(address: str) -> None:
    assert AllowList([]).refusal("shop", address) is None


NOBODY = "a link-local, multicast or unspecified address"
CLOUD = "an address of a cloud's own services"
NEVER = {
    "0.0.0.0": NOBODY,  # noqa: S104  (nothing is bound: it must be refused)
    **dict.fromkeys(("169.254.169.254", "169.254.0.1", "0.1.2.3", "224.0.0.1", "239.1.1.1", "255.255.255.255"), NOBODY),
    **dict.fromkeys(("::", "fe80::1", "fe80::1%eth0", "febf::1", "ff02::1"), NOBODY),
    **dict.fromkeys(("100.100.100.200", "168.63.129.16", "192.0.0.192", "fd20:ce::254", "fd00:c1::a9fe:a9fe"), CLOUD),
    **dict.fromkeys(("fd00:ec2::254", "fd00:ec2::23", "fd00:42::42", "fd00:a9fe:a9fe::1"), CLOUD),
    # IPv4 addresses in IPv6: mapped, NAT64, 6to4, compatible, translated, Teredo, ISATAP
    **dict.fromkeys(("::ffff:169.254.169.254", "::ffff:0.0.0.0", "64:ff9b::a9fe:a9fe", "2002:a9fe:a9fe::1"), NOBODY),
    **dict.fromkeys(("::169.254.169.254", "::ffff:0:169.254.169.254"), NOBODY),
    **dict.fromkeys(("2001:0:102:304::5601:5601", "2001:db8::5efe:a9fe:a9fe", "fe80::200:5efe:a9fe:a9fe"), NOBODY),
    **dict.fromkeys(("::ffff:100.100.100.200", "64:ff9b::6464:64c8", "64:ff9b::a83f:8110", "2002:c000:c0::"), CLOUD),
    **dict.fromkeys(
        ("64:ff9b:1::a9fe:a9fe", "64:ff9b:1:a9fe:a9:fe00::", "64:ff9b:1:ffff::a00:1"),
        "a NAT64 address, of which nobody here knows where it leads",
    ),
}


@pytest.mark.parametrize("address", NEVER)
@pytest.mark.parametrize("allowed", [[], ["*"], ["shop"], ["10.0.0.0/8"]])
def test_these_are_not_not_even_under_a_listed_name(address: str, allowed: list[str]) -> None:
    assert AllowList(allowed).refusal("shop", address) == f"shop is at {address}, {NEVER[address]}"


@pytest.mark.parametrize(
    "host",
    [
        *("2130706433", "0x7f000001", "0X7F000001", "017700000001", "127.1", "127.0.1", "0177.0.0.1", "127.0.0.01"),
        *("0x7f.0.0.1", "127.0.0.1.", "127.0.0.256", "1.2.3.4.5", "shop.1", "0x", "0", "\uff11\uff12\uff17.1"),
        *("127\u30020\u30020\u30021", "169.254.43518", "0xa9fea9fe", "2852039166"),
    ],
)
@pytest.mark.parametrize("allowed", [[], ["*"], ["0.0.0.0/0"]])
def test_a_number_that_is_no_plain_address_is_refused(host: str, allowed: list[str]) -> None:
    refusal = AllowList(allowed).refusal_of_literal(host)
    assert refusal == f"{host} is not a way to write an address: write four decimal numbers"


@pytest.mark.parametrize("host", ["shop", "shop.internal.", "1.shop", "0xshop", "face", "127.0.0.1", "::1", "a-1"])
def test_names_and_plain_addresses_are_not(host: str) -> None:
    assert AllowList([]).refusal_of_literal(host) is None


def test_a_plain_address_is_judged_as_one() -> None:
    assert AllowList([]).refusal_of_literal("100.100.100.200") is not None
    assert AllowList(["10.0.0.0/8"]).refusal_of_literal("11.0.0.1") == "11.0.0.1 at 11.0.0.1 is not in " + LIST
    assert AllowList(["shop"]).refusal_of_literal("::1") == "::1 at ::1 is not in " + LIST


LIST = "checks.allowed_hosts"


def test_a_listed_network_opens_even_these() -> None:
    assert AllowList(["169.254.0.0/16"]).refusal("shop", "169.254.10.1") is None
    assert AllowList(["169.254.0.0/16"]).refusal("shop", "::ffff:169.254.10.1") is None
    assert AllowList(["64:ff9b:1::/48"]).refusal("shop", "64:ff9b:1::a00:1") is None
    assert AllowList(["168.63.129.16"]).refusal("shop", "168.63.129.16") is None


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


def resolved(allowed: list[str], *addresses: str, host: str = "shop") -> list[ResolveResult]:
    """What the resolver makes of a name that has these addresses."""

    async def asked() -> list[ResolveResult]:
        FOUND.set([Address(socket.AF_INET6 if ":" in one else socket.AF_INET, 6, one) for one in addresses])
        return await AdmittedResolver(AllowList(allowed)).resolve(host, 80, socket.AF_UNSPEC)

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


def test_the_resolver_is_asked_for_no_odd_notation() -> None:
    with pytest.raises(OSError, match=r"0x7f\.1 is not a way to write an address"):
        resolved([], "127.0.0.1", host="0x7f.1")
