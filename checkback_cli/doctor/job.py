"""The job: whether one runs, and where; and the producers' check endpoints, whether they answer a probe from here."""

import errno
import socket
import ssl
import time
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlsplit

from checkback.answering.advertising import PROBE, foreign_answer
from checkback.kafka.topic_reading import own_topic, records_to_end
from checkback.operations.half_search import all_in_doubt
from checkback.operations.producers import AnnouncedEndpoint, announced
from checkback.operations.times import said_duration
from checkback.wire.protocol import Topics
from checkback.wire.signature import signed_headers
from checkback_cli.doctor.finding import Finding, ok, warning, wrong
from checkback_cli.on_call.asking_job import Job
from checkback_cli.on_call.in_doubt import counted
from checkback_cli.terminal.reading import reading
from checkers.announcers import Announcers
from checkers.directory import EndpointDirectory, PassedOver, directory_of
from checkers.http.admission import AllowList
from conf import Settings
from conf.redaction import redacted
from status_page.facts import JobFacts, TopicInDoubt

_SECONDS = 2.0
_MOST = 50
"""Endpoints that are probed."""
_AT_ONCE = 16
_STALLED_MS = 60_000


def about_endpoints(settings: Settings, topics: Topics, facts: JobFacts | None) -> Iterator[Finding]:
    """Each live endpoint, also as the job finds it, and groups of which none is live."""
    kafka = settings.kafka
    with reading(kafka) as consumer:
        records = list(records_to_end(consumer, own_topic(consumer, topics.producers)))
        rows = all_in_doubt(consumer, topics)
    now_ms = int(time.time() * 1000)
    heard, directory = announced(records), heard_by_service(records, settings)
    live, passed_over = live_endpoints(directory, now_ms), not_taken(heard, directory, now_ms)
    asked = taken(heard, live)
    yield from unasked(counted(rows.values(), asked, settings.checks, now_ms, facts))
    for group, (url, _, why) in passed_over.items():
        todo = "sign its announcements (docs/access-policy.md), or let access.policy allow it; a stranger's may stay so"
        yield warning("endpoints", f"group {group}: {redacted(url)} is announced, and is not asked: {why}", todo)
    if not live:
        todo = "producers announce theirs (CheckEndpoint), or checks.endpoints names them"
        yield warning("endpoints", "no producer group has a live endpoint: nobody can be asked", todo)
    for group, last_ms in gone(heard, live.keys() | passed_over.keys()).items():
        said = f"none of group {group} is live: the last was heard {said_duration(now_ms - last_ms)} ago"
        yield warning("endpoints", said, "ignore if decommissioned; otherwise find out why its processes exit")
    yield from reached(live, settings, facts)


def reached(live: Mapping[str, Sequence[str]], settings: Settings, facts: JobFacts | None) -> Iterator[Finding]:
    """Whether each endpoint accepts connections from here, and whether the job's checks succeed there."""
    named = [(group, url) for group, urls in live.items() for url in urls]
    failing = failures(facts)
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        answers = threads.map(lambda one: probed(one[0], one[1], settings), named[:_MOST])
        for (group, address), trouble in zip(named, answers, strict=False):
            url = redacted(address)
            failure = failing.get((group, url))
            if failure and not trouble:
                said = f"group {group}: {url} answers as a check endpoint, but checks fail there: {failure}"
                yield warning("endpoints", said, "see the application's log; 'checkback groups' shows its endpoints")
            elif trouble:
                todo = "make the endpoint itself answer there, with the key in checks.keys; let this machine connect"
                yield warning("endpoints", f"group {group}: {url} {trouble}", todo)
            else:
                yield ok("endpoints", f"group {group}: {url} answers as a check endpoint")
    if len(named) > _MOST:
        yield ok("endpoints", f"{len(named) - _MOST} more were not probed")


def failures(facts: JobFacts | None) -> dict[tuple[str, str], str]:
    """By group and URL, why the last check that the job's check service sent there failed."""
    groups = () if facts is None else facts.groups
    return {
        (group.group, one.url): one.reason.removeprefix(f"{one.url}: ") or one.state
        for group in groups
        for one in group.endpoints
        if one.state != "well"
    }


def unasked(in_doubt: Iterable[TopicInDoubt]) -> Iterator[Finding]:
    """Where somebody should be asked, and nobody can be: also of groups that never announced themselves."""
    for group, topic, number, why in in_doubt:
        if why:
            stuck = f"{number:,} transaction{'s' if number > 1 else ''} in doubt for topic {topic}"
            said = f"group {group} has {stuck}: nobody can be asked; {why}"
            todo = "start its application with a CheckEndpoint, or name its endpoints in checks.endpoints"
            yield wrong("endpoints", said, todo)


def heard_by_service(records: Iterable[Any], settings: Settings) -> EndpointDirectory:
    """What the check service makes of these records of ``cb.producers``: not all are believed, nor all too many."""
    announcers, directory = Announcers(settings), directory_of(settings.checks)
    for record in records:
        if record.key is not None:
            directory.hear(record.key, record.value, record.timestamp, announcers.belief(record))
    return directory


def live_endpoints(directory: EndpointDirectory, now_ms: int) -> dict[str, list[str]]:
    """URLs by group, each once: those heard from within the time, and the fixed ones of the settings."""
    found = {
        group: list(dict.fromkeys(endpoint.url for endpoint, _, _ in directory.live(group, now_ms)))
        for group in directory.groups()
    }
    return {group: urls for group, urls in found.items() if urls}


def taken(heard: Iterable[AnnouncedEndpoint], live: Mapping[str, Sequence[str]]) -> list[AnnouncedEndpoint]:
    """Those announcements that the check service goes by."""
    return [one for one in heard if one.url in live.get(one.group, ())]


def not_taken(heard: Iterable[AnnouncedEndpoint], directory: EndpointDirectory, now_ms: int) -> dict[str, PassedOver]:
    """By group the last announcement that was passed over."""
    found = {group: directory.passed_over(group, now_ms) for group in dict.fromkeys(one.group for one in heard)}
    return {group: one for group, one in found.items() if one is not None}


def gone(heard: Iterable[AnnouncedEndpoint], known: Container[str]) -> dict[str, int]:
    """Groups that were announced and are not known any more, with when they were heard last."""
    found: dict[str, int] = {}
    for one in heard:
        if one.group not in known:
            found[one.group] = max(found.get(one.group, 0), one.heard_ms)
    return found


def probed(group: str, url: str, settings: Settings) -> str:
    """Why an endpoint of a group does not answer as one; empty: it does."""
    parts = urlsplit(url)
    try:
        host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
        allowed = AllowList(settings.checks.allowed_hosts)
        refusal = allowed.refusal_of_literal(host)
        if refusal is not None:
            return f"is not asked: {refusal}"
        with socket.create_connection((host, port), _SECONDS) as connection:
            refusal = allowed.refusal(host, str(connection.getpeername()[0]))
            if refusal is not None:
                return f"is not asked: {refusal}"
            key = settings.checks.keys.get(group)
            now_ms = time.time_ns() // 1_000_000
            signed = signed_headers(key.get_secret_value().encode(), now_ms, PROBE) if key else {}
            secured = _tls(settings).wrap_socket(connection, server_hostname=host) if parts.scheme == "https" else None
            http = HTTPConnection(host, port)
            http.sock = secured or connection
            answer = foreign_answer(http, url, signed)
    except (OSError, ValueError) as error:
        return f"does not answer: {error}"
    return f"is no check endpoint: {redacted(answer)}" if answer else ""


def _tls(settings: Settings) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=settings.checks.tls_ca or None)
    if settings.checks.tls_certificate:
        context.load_cert_chain(settings.checks.tls_certificate, settings.checks.tls_key or None)
    return context


def about_job(settings: Settings, found: Job) -> Iterator[Finding]:
    """The run that has claimed the topics, whether it answers, and the facts that it gives."""
    if found.facts is not None:
        yield from of_facts(found.facts)
        return
    if found.claim is None:
        yield ok("job", found.silence)
    else:
        todo = (
            "ignore if it is meant to be down; otherwise check whether it runs (if its port was taken it has no page, "
            "and its log says so), and if not, start it: 'checkback run'"
        )
        yield warning("job", f"{found.silence} Its topics are claimed by {found.claim}.", todo)
    yield from about_port(settings)


def of_facts(facts: "JobFacts") -> Iterator[Finding]:
    """What a job that answers says."""
    up = said_duration(facts.now_ms - facts.started_ms)
    yield ok("job", f"{facts.job} {facts.version} runs on {facts.host}, for {up}")
    if facts.batch is not None and facts.now_ms - facts.batch.ended_ms > _STALLED_MS:
        ago = said_duration(facts.now_ms - facts.batch.ended_ms)
        todo = "see what is wrong above, and its log; if nothing is, the batch is a long one"
        yield warning("job", f"its last batch ended {ago} ago", todo)
    for note in facts.notes:
        yield warning("job", note, "'checkback status' shows more")
    if facts.held:
        most, number = facts.held[0], sum(one.number for one in facts.held)
        said = f"{number:,} committed messages are held, {most.number:,} for {most.topic}: {most.reason.rstrip('.')}"
        yield warning("job", said, "make that topic, grow it, or let the job write to it; 'checkback status' has all")
    if facts.parked:
        yield warning("job", f"{facts.parked:,} messages are parked", "decide them: 'checkback parked list'")


def about_port(settings: Settings) -> Iterator[Finding]:
    """Whether the port of the page can be had here, while no job has it."""
    host, port = settings.http.host, settings.http.port
    if not port:
        yield ok("port", "http.port is 0: no status page, no metrics")
        return
    try:
        family, kind, number, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, number) as tried:
            tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            tried.bind(address)
    except OSError as error:
        taken = error.errno == errno.EADDRINUSE
        said = f"{host}:{port} (http.port) {'is in use' if taken else f'is not available: {error.strerror or error}'}"
        todo = "stop what uses it, or choose another port: else the job runs without status page and metrics"
        yield warning("port", said, todo)
    else:
        yield ok("port", f"{host}:{port} is free")
