"""What is announced is something that can be asked."""

from http.client import HTTPConnection
from urllib.parse import urlsplit

import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from checkback import CheckEndpoint, ConfigurationError, EndpointAnnouncer, check_app
from checkback.answering.advertising import announced_url, foreign_answer
from tests.answering.endpoint import Answerer
from tests.checkers.serving import http, serving, serving_app

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


def probed(url: str, headers: dict[str, str] | None = None) -> str:
    parts = urlsplit(url)
    return foreign_answer(HTTPConnection(parts.hostname or "", parts.port, timeout=10), url, headers)


@pytest.mark.parametrize("key", [None, "a key"])
def test_our_endpoint_is_probed_and_its_listener_is_not_called(key: str | None) -> None:
    answerer = Answerer()
    app = Starlette(routes=[Mount("/checkback", check_app(answerer, "orders", key=key))])
    with serving_app(app) as url:
        assert probed(f"{url}checkback/") == ""
        assert probed(f"{url}checkback") == f"status 307 to {url}checkback/, no body"
        assert probed(f"{url}elsewhere/") == "status 404, 'Not Found'"
        missing = 'status 401, \'{"error":"checkback-time or checkback-signature is missing."}\'' if key else ""
        assert probed(f"{url}checkback/", headers={}) == missing
    assert answerer.asked == []


@pytest.mark.parametrize(
    ("answer", "foreign"),
    [
        (http(b'{"state": "unknown"}'), ""),
        (http(b"", "400 Bad Request"), ""),
        (http(b"", "401 Unauthorized"), ""),
        (http(b'{"detail": []}', "422 Unprocessable Entity"), ""),
        (http(b"<title>Error", "500 Internal Server Error"), ""),
        (http(b"<title>Sign in"), "status 200, '<title>Sign in'"),
        (http(b"OK"), "status 200, 'OK'"),
        (http(b"<html> 400 The plain", "400 Bad Request"), "status 400, '<html> 400 The plain'"),
        (http(b"<html>", "401 Unauthorized"), "status 401, '<html>'"),
        (http(b"", "302 Found", "Location: /login/?next=/"), "status 302 to /login/?next=/, no body"),
        (http(b"", "403 Forbidden"), "status 403, no body"),
        (http(b"", "405 Method Not Allowed"), "status 405, no body"),
        (http(b"", "502 Bad Gateway"), "status 502, no body"),
        (b"SSH-2.0-OpenSSH\r\n", "no HTTP: SSH-2.0-OpenSSH"),
    ],
)
def test_what_answers_in_place_of_a_check_endpoint_is_described(answer: bytes, foreign: str) -> None:
    with serving(answer) as served:
        assert probed(f"http://shop:p%40ss@127.0.0.1:{served.port}/checks?of=shop") == foreign
    [(head, body)] = served.requests
    assert head.startswith(b"POST /checks?of=shop HTTP/1.1")
    assert b"Authorization: Basic c2hvcDpwQHNz" in head
    assert b'"version"' in body
