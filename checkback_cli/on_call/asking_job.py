"""Finds the running job, at the configured address or by its claim in Kafka, and asks it over HTTP how it stands."""

import http.client
import json
import socket
import urllib.error
import urllib.request
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import NamedTuple
from urllib.parse import urlsplit

from pydantic import TypeAdapter, ValidationError

from checkback.exceptions import CheckbackError, ConfigurationError
from checkback.operations.job_in_kafka import ClaimRecord, JobInKafka
from conf import Settings
from status_page.facts import JobFacts, TopicInDoubt

_FACTS = TypeAdapter(JobFacts)
_IN_DOUBT = TypeAdapter(list[TopicInDoubt])
_SECONDS = 5.0
"""For an answer: a job that is well gives it within some milliseconds, one on a busy machine within a second or two."""
_MOST_BYTES = 64 * 1024 * 1024
_NO_PAGE = "http.port = 0, an earlier version, or 'checkback grow', after which a start claims them last"
_STATUS, _GROUPS = "/api/v1/status", "/api/v1/groups"


class JobSilentError(CheckbackError):
    """No job gives an answer that can be used; the message says what to do."""


class Job(NamedTuple):
    """What was found of the job on some topics."""

    claim: ClaimRecord | None
    """The run that reads the topics, or read them last; None: there is none, or Kafka was not asked."""
    page: str
    """Where it was asked; empty: it serves no page."""
    facts: JobFacts | None
    """What it said; None when it did not answer."""
    silence: str
    """Why it did not, and what to do; empty when it did."""


def find_job(settings: Settings, url: str | None) -> Job:
    """Ask the job at ``url``; without one, the job at the configured address, then the one that has claimed the topics.

    Raises:
        KafkaUnreachableError: no Kafka answers, ``url`` is not given, and no job answers at the configured address.
    """
    if url is not None:
        return _asked(None, url, settings)
    local = configured_job(settings)
    if local is not None:
        return local
    with JobInKafka(settings.kafka.bootstrap_servers, settings.kafka.topics, settings.kafka.python_client) as kafka:
        return claimed_job(settings, kafka.claim())


def configured_job(settings: Settings) -> Job | None:
    """The job at ``http.host`` and ``http.port``, if it reads these topics of this Kafka.

    A job claims the topics at the end of its start, and serves its page from the beginning.
    """
    kafka, http = settings.kafka, settings.http
    if not http.port:
        return None
    address = _address(http.host)
    host = "localhost" if address is not None and address.is_unspecified else http.host
    page = f"http://[{host}]:{http.port}" if ":" in host else f"http://{host}:{http.port}"
    try:
        facts = ask(page)
    except JobSilentError:
        return None
    ours = (facts.topic_prefix, facts.kafka) == (kafka.topic_prefix, kafka.bootstrap_servers)
    return Job(None, page, facts, "") if ours else None


def claimed_job(settings: Settings, claim: ClaimRecord | None) -> Job:
    """Ask the job that has claimed the topics."""
    if claim is None:
        prefix = settings.kafka.topic_prefix
        silence = (
            f"No job has claimed the topics {prefix}* yet, and none answers at http.host and http.port here. One that "
            "is starting claims them last: wait for it. If there is none, start one with 'checkback run'."
        )
        return Job(None, "", None, silence)
    if not claim.page:
        return Job(claim, "", None, f"Who has the topics serves no page ({_NO_PAGE}): {claim}.")
    return _asked(claim, claim.page, settings)


def _asked(claim: ClaimRecord | None, page: str, settings: Settings) -> Job:
    if claim is not None and loopback(page) and claim.host != socket.gethostname():
        return Job(claim, page, None, elsewhere(claim))
    try:
        facts = ask(page)
    except JobSilentError as error:
        return Job(claim, page, None, str(error))
    if facts.topic_prefix != settings.kafka.topic_prefix:
        wrong = f"The job that answers at {page} reads the topics {facts.topic_prefix}*, not these."
        return Job(claim, page, None, wrong)
    if claim is not None and facts.run not in {"", claim.run}:  # one that is starting has not claimed them yet
        wrong = f"Another job answers at {page} (on {facts.host}), not the one that has these topics."
        return Job(claim, page, None, wrong)
    return Job(claim, page, facts, "")


def elsewhere(claim: ClaimRecord) -> str:
    """What to do about a page that only the machine which serves it can reach."""
    port = urlsplit(claim.page).port or 80
    return (
        f"The job runs on {claim.host}, and serves its page to that machine only ({claim.page}). Ask there, or from "
        f"here through ssh -L {port}:127.0.0.1:{port} {claim.host}, then with --job http://127.0.0.1:{port}."
    )


def loopback(url: str) -> bool:
    """Whether a URL's host is the machine itself, whichever that is."""
    host = urlsplit(url).hostname or ""
    address = _address(host)
    return host == "localhost" if address is None else address.is_loopback


def _address(host: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(host)
    except ValueError:
        return None


def ask(page: str, seconds: float = _SECONDS) -> JobFacts:
    """What the job at this address says of itself.

    Raises:
        JobSilentError: it does not answer in time, or something else does.
        ConfigurationError: that is not a URL.
    """
    try:
        return _FACTS.validate_json(_body(page, _STATUS, seconds))
    except ValidationError as error:
        raise JobSilentError(
            f"What answers at {page} is not a job of this version ({error.error_count()} fields are not as expected)."
        ) from error


def in_doubt_by_topic(page: str, seconds: float = _SECONDS) -> list[TopicInDoubt] | None:
    """How many are in doubt of which group and topic, as the page has counted; None: it does not say."""
    try:
        return _IN_DOUBT.validate_python(json.loads(_body(page, _GROUPS, seconds))["in_doubt"])
    except (JobSilentError, ValueError, KeyError, TypeError):
        return None


def _body(page: str, path: str, seconds: float) -> bytes:
    parts = urlsplit(page)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ConfigurationError(f"{page} is not the address of a job's page: write http://host:port.")
    address = page.rstrip("/") + path
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # nobody's proxy is between us and our job
    try:
        with opener.open(address, timeout=seconds) as answer:
            return bytes(answer.read(_MOST_BYTES))
    except urllib.error.HTTPError as error:
        raise JobSilentError(
            f"{address} answers with status {error.code}: it is not the job, or does not accept requests "
            "under that name (http.names)."
        ) from error
    except (OSError, http.client.HTTPException, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        if isinstance(reason, TimeoutError):
            raise JobSilentError(
                f"No job has answered at {page} within {seconds:g} s. One that is busy may take longer: ask again. "
                "Otherwise see what its log says."
            ) from error
        raise JobSilentError(
            f"No job answers at {page} ({reason}): check whether it runs ('checkback run' ends with the reason when it "
            "stops)."
        ) from error
