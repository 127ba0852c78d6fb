"""What is announced is something that can be asked."""

import pytest

from checkback import CheckEndpoint, ConfigurationError, EndpointAnnouncer
from checkback.answering.advertising import announced_url
from tests.answering.endpoint import Answerer

WILDCARDS = ["0.0.0.0", "::", "", "0:0::0"]  # noqa: S104  (that is the test)


@pytest.mark.parametrize(
    ("host", "advertised", "url"),
    [
        ("127.0.0.1", None, "http://127.0.0.1:81/"),
        ("::1", None, "http://[::1]:81/"),
        ("0.0.0.0", "10.0.0.7", "http://10.0.0.7:81/"),  # noqa: S104  (that is the test)
        ("::", "shop-1.internal", "http://shop-1.internal:81/"),
        ("::", "shop-1.internal:8080", "http://shop-1.internal:8080/"),
        ("::", "2001:db8::7", "http://[2001:db8::7]:81/"),
        ("::", "[2001:db8::7]", "http://[2001:db8::7]:81/"),
        ("::", "[2001:db8::7]:8080", "http://[2001:db8::7]:8080/"),
        ("127.0.0.1", "https://shop.example/checks/", "https://shop.example/checks/"),
    ],
)
def test_the_announced_address_is_the_advertised_or_the_bound_one(host: str, advertised: str | None, url: str) -> None:
    assert announced_url(host, 81, advertised) == url


@pytest.mark.parametrize("host", WILDCARDS)
def test_a_wildcard_alone_is_refused_before_anything_is_opened(host: str) -> None:
    with pytest.raises(ConfigurationError, match=r"say in advertised= at which host, host:port or URL"):
        CheckEndpoint("nowhere:1", "orders", Answerer(), host=host)


@pytest.mark.parametrize(
    "advertised",
    [*WILDCARDS, "0.0.0.0:80", "http://[::]/", "ftp://shop/", "shop:http", "shop:0", "shop:99999", "[::1", "::1:x"],
)
def test_an_advertised_address_that_is_none_is_refused(advertised: str) -> None:
    with pytest.raises(ConfigurationError, match="cannot be announced"):
        CheckEndpoint("nowhere:1", "orders", Answerer(), advertised=advertised)


@pytest.mark.parametrize("url", ["http://0.0.0.0:80/", "http://[::]/", "shop:80", "http:///checks"])
def test_an_announcer_refuses_it_too(url: str) -> None:
    with pytest.raises(ConfigurationError, match="cannot be announced"):
        EndpointAnnouncer("nowhere:1", "orders", url)


def test_the_free_port_is_in_the_advertised_address() -> None:
    served = CheckEndpoint("nowhere:1", "orders", Answerer(), host="0.0.0.0", advertised="shop")  # noqa: S104  (likewise)
    try:
        assert served.url == f"http://shop:{served._socket.getsockname()[1]}/"
        assert served._socket.getsockname()[0] == "0.0.0.0"  # noqa: S104  (likewise)
    finally:
        served.close()


def test_an_announcement_that_nobody_would_read_is_refused_before_anything_is_opened() -> None:
    with pytest.raises(ConfigurationError, match=r"has 3\d,\d{3} bytes, 16,384 at most are read: name fewer topics"):
        EndpointAnnouncer("nowhere:1", "orders", "http://shop/", answers_for=[f"topic-{n:020}" for n in range(1_000)])
