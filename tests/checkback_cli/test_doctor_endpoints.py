"""What ``checkback doctor`` finds out about the producers' check endpoints."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from checkback import check_app
from checkback.operations.in_doubt import InDoubt
from checkback.operations.producers import AnnouncedEndpoint, announced
from checkback.wire.checks import Announcement
from checkback.wire.protocol import HalfPosition, Headers
from checkback_cli.doctor.finding import Level
from checkback_cli.doctor.job import (
    gone,
    heard_by_service,
    live_endpoints,
    not_taken,
    probed,
    reached,
    taken,
    unasked,
)
from checkback_cli.on_call.in_doubt import counted
from conf import Settings
from status_page.facts import EndpointFacts, GroupFacts
from status_page.words import NO_ENDPOINT
from tests.answering.endpoint import Answerer
from tests.checkback_cli.facts_made import FACTS, NOW
from tests.checkers.serving import http, serving, serving_app

FIXED = Settings.model_validate({"checks": {"endpoints": {"fixed": ["http://f/"]}, "endpoint_ttl": "60s"}})


def test_an_endpoint_that_answers_a_probe_and_fails_at_checks_is_not_ok() -> None:
    place = HalfPosition(0, 1)
    with serving_app(check_app(Answerer(), "shop")) as url:
        why = f"{url}: HTTP status 500"
        endpoints = (EndpointFacts(url, "skipped", 3.0, why),)
        facts = replace(FACTS, groups=(GroupFacts("shop", endpoints=endpoints, unasked=f"endpoint skipped: {why}"),))
        (unknown,) = reached({"shop": [url]}, Settings(), None)
        (found,) = reached({"shop": [url]}, Settings(), facts)
    assert (unknown.level, unknown.said) == (Level.OK, f"group shop: {url} answers as a check endpoint")
    assert (found.level, found.said) == (Level.WARNING, f"{unknown.said}, but checks fail there: HTTP status 500")
    rows = [InDoubt("x", "shop", "paid", place, 1, 15, NOW, NOW)]
    (stuck,) = unasked(counted(rows, [AnnouncedEndpoint("shop", "a", url, NOW)], Settings().checks, NOW, facts))
    assert stuck.said.endswith(f"nobody can be asked; endpoint skipped: {why}")


def test_a_group_that_waits_and_never_announced_itself_is_named() -> None:
    place = HalfPosition(0, 1)
    rows = [
        InDoubt("x", group, topic, place, 1, 15, NOW, NOW)
        for group, topic in (
            ("never", "paid"),
            ("never", "paid"),
            ("well", "paid"),
            ("well", "late"),
            ("fixed", "late"),
        )
    ]
    heard = [AnnouncedEndpoint("well", name, f"http://{name}/", NOW, ("paid",)) for name in "ab"]
    found = list(unasked(counted(rows, heard, FIXED.checks, NOW)))
    assert {(one.level, one.about) for one in found} == {("wrong", "endpoints")}
    assert [one.said for one in found] == [
        f"group never has 2 transactions in doubt for topic paid: nobody can be asked; {NO_ENDPOINT}",
        "group well has 1 transaction in doubt for topic late: nobody can be asked; no working endpoint for late",
    ]


def announcing(group: str, instance: str, url: str, heard_ms: int, headers: Headers = ()) -> Any:
    key, value = Announcement(group, instance, url, heard_ms).to_record()
    return SimpleNamespace(key=key, value=value, headers=list(headers), timestamp=heard_ms)


def test_endpoints_that_are_live_and_groups_that_are_gone() -> None:
    records = [
        announcing("old", "c", "http://c/", NOW - 90_000),
        announcing("shop", "b", "http://a/", NOW - 2_000),
        announcing("shop", "a", "http://a/", NOW - 1_000),
    ]
    live = live_endpoints(heard_by_service(records, FIXED), NOW)
    assert live == {"shop": ["http://a/"], "fixed": ["http://f/"]}
    assert gone(announced(records), live) == {"old": NOW - 90_000}


def test_an_endpoint_that_the_check_service_does_not_believe_is_not_called_live(tmp_path: Path) -> None:
    policy, secrets = tmp_path / "access.toml", tmp_path / "secrets.toml"
    policy.write_text('[accounts.shop]\ngroups = ["shop"]\ntopics = ["*"]\nkeys = ["shop-1"]\n')
    secrets.write_text(f'shop-1 = "{"s" * 40}"\n')
    secrets.chmod(0o600)
    settings = Settings.model_validate({"access": {"policy": str(policy), "secrets": str(secrets)}})
    records = [announcing("shop", "a", "http://stranger/", NOW), announcing("till", "a", "http://t/", NOW)]
    directory = heard_by_service(records, settings)
    live = live_endpoints(directory, NOW)
    assert "shop" not in live
    assert [one.group for one in taken(announced(records), live)] == ["till"]
    (group, passed_over), *_ = not_taken(announced(records), directory, NOW).items()
    assert (group, passed_over.url) == ("shop", "http://stranger/")
    assert "cb-signature is missing" in passed_over.why


def test_an_endpoint_is_probed_where_it_may_be_asked() -> None:
    listener = Answerer()
    with serving_app(check_app(listener, "shop", key="the key of the shop")) as url:
        assert probed("shop", url, with_key("the key of the shop")) == ""
        for settings in (with_key("another key of the shop"), Settings()):
            assert 'is no check endpoint: status 401, \'{"error":' in probed("shop", url, settings)
    assert listener.asked == []
    with serving(http(b"Log in", "302 Found", "Location: /login/")) as login:
        trouble = "is no check endpoint: status 302 to /login/, 'Log in'"
        assert probed("shop", login.url, Settings()) == trouble
        allowed = Settings.model_validate({"checks": {"allowed_hosts": ["10.0.0.0/8"]}})
        assert "is not in checks.allowed_hosts" in probed("shop", login.url, allowed)
        assert len(login.requests) == 1
    assert "does not answer" in probed("shop", "http://127.0.0.1:1/", Settings())
    assert "is not asked" in probed("shop", "http://169.254.169.254/", Settings())
    with serving(http(b"")) as plain:
        assert "does not answer" in probed("shop", f"https://127.0.0.1:{plain.port}/", Settings())


def with_key(key: str) -> Settings:
    return Settings.model_validate({"checks": {"keys": {"shop": key}}})
