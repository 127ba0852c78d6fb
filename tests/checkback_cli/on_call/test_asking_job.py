"""Asking the job how it stands: what answers, what does not, and what is said then."""

import json
import re
import socket
import time
from typing import Any
from urllib.parse import urlsplit

import pytest

from checkback.exceptions import ConfigurationError
from checkback.operations.job_in_kafka import ClaimRecord
from checkback_cli.on_call.asking_job import (
    JobSilentError,
    ask,
    claimed_job,
    configured_job,
    elsewhere,
    find_job,
    in_doubt_by_topic,
    loopback,
)
from conf import Settings
from status_page.facts import TopicInDoubt
from tests.checkback_cli.facts_made import FACTS, bodies, page

HERE = socket.gethostname()


def claim(url: str, run: str = "run-1", host: str = HERE) -> ClaimRecord:
    return ClaimRecord(run, host, 7, "2026-11-22 09:30:00 UTC", page=url)


def test_what_the_page_says_is_read_as_it_was_written() -> None:
    with page(bodies()) as url:
        assert ask(url) == ask(f"{url}/") == FACTS


def test_fields_of_a_later_version_are_passed_over() -> None:
    said = json.loads(bodies()[0])
    said["new"] = said["batch"]["new"] = said["groups"][0]["new"] = 1
    with page(json.dumps(said).encode()) as url:
        assert ask(url) == FACTS


@pytest.mark.parametrize("answer", [b"<html>", b"{}", b"[]", b"", b'{"job": 1}'])
def test_what_is_no_job_is_told(answer: bytes) -> None:
    with page(answer) as url, pytest.raises(JobSilentError, match="is not a job of this version"):
        ask(url)


def test_how_many_are_in_doubt_is_asked_beside() -> None:
    with page(bodies()) as url:
        assert in_doubt_by_topic(url) == [
            TopicInDoubt(group, topic, number, unasked)
            for group in ("orders", "quiet")
            for topic, number, unasked in (
                ("shop.orders", 4, ""),
                ("shop.late", 1, "no working endpoint for shop.late"),
            )
        ]


@pytest.mark.parametrize(
    "groups", [b"", b"{}", b"[]", b'{"in_doubt": [{"group": 1}]}', b'{"in_doubt": 7}', b'{"in_doubt": null}']
)
def test_and_not_known_where_that_is_not_answered(groups: bytes) -> None:
    with page((bodies()[0], groups)) as url:
        assert in_doubt_by_topic(url) is None
    assert in_doubt_by_topic("http://127.0.0.1:1") is None


def test_a_refusal_names_the_setting() -> None:
    with page(b"", "421 Misdirected Request") as url, pytest.raises(JobSilentError, match=r"status 421.*http\.names"):
        ask(url)


def test_nobody_there_is_told_at_once() -> None:
    with pytest.raises(JobSilentError, match=r"No job answers at http://127\.0\.0\.1:1"):
        ask("http://127.0.0.1:1")


def test_one_that_hangs_is_not_waited_for() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        begun = time.monotonic()
        with pytest.raises(JobSilentError, match=r"within 0\.2 s\. One that is busy may take longer: ask again"):
            ask(f"http://127.0.0.1:{silent.getsockname()[1]}", seconds=0.2)
        assert time.monotonic() - begun < 2


@pytest.mark.parametrize("url", ["9464", "ftp://x", "http://", "host:9464"])
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(ConfigurationError, match="not the address of a job's page"):
        ask(url)


def test_the_one_that_has_the_topics_is_found() -> None:
    with page(bodies()) as url:
        found = claimed_job(Settings(), claim(url))
    assert (found.facts, found.silence) == (FACTS, "")


def configured(url: str, **kafka: str) -> Settings:
    return Settings.model_validate(
        {"http": {"port": urlsplit(url).port or 0}, "kafka": {"bootstrap_servers": FACTS.kafka, **kafka}}
    )


def test_a_job_that_is_starting_is_found_at_the_configured_address() -> None:
    with page(bodies(run="", batch=None)) as url:
        found = find_job(configured(url), None)
        assert configured_job(configured(url, topic_prefix="other.")) is None
        assert configured_job(configured(url, bootstrap_servers="other:9092")) is None
    assert (found.facts and found.facts.job, found.page, found.silence) == ("checkback", url, "")


def test_any_address_is_this_machine() -> None:
    with page(bodies()) as url:
        settings = configured(url)
        everywhere = settings.http.model_copy(update={"host": "0.0.0.0"})  # noqa: S104  (nothing listens there)
        found = configured_job(settings.model_copy(update={"http": everywhere}))
    assert found is not None
    assert found.page == f"http://localhost:{urlsplit(url).port}"


@pytest.mark.parametrize(
    ("fields", "run", "said"),
    [
        ({"topic_prefix": "other."}, "run-1", r"reads the topics other\.\*, not these"),
        ({}, "run-2", "Another job answers at"),
    ],
)
def test_another_job_at_that_address_is_not_taken_for_it(fields: dict[str, Any], run: str, said: str) -> None:
    with page(bodies(**fields)) as url:
        found = claimed_job(Settings(), claim(url, run))
    assert found.facts is None
    assert re.search(said, found.silence)


def test_without_a_claim_nobody_is_asked() -> None:
    assert "No job has claimed the topics cb.* yet" in claimed_job(Settings(), None).silence
    assert "serves no page" in claimed_job(Settings(), claim("")).silence


def test_a_page_of_another_machine_is_not_looked_for_here() -> None:
    far = claim("http://127.0.0.1:9464", host="somewhere-else")
    found = claimed_job(Settings(), far)
    assert found.facts is None
    assert found.silence == elsewhere(far)
    assert "ssh -L 9464:127.0.0.1:9464 somewhere-else, then with --job http://127.0.0.1:9464" in found.silence


@pytest.mark.parametrize(
    ("url", "expected"),
    [("http://127.0.0.1:1", True), ("http://[::1]:1", True), ("http://localhost", True), ("http://10.0.0.7:1", False)],
)
def test_loopback(url: str, *, expected: bool) -> None:
    assert loopback(url) is expected
