"""The job: whether one runs, where, and whether its port can be had."""

import errno
import socket
from collections.abc import Iterator
from typing import TYPE_CHECKING

from checkback.operations.times import said_duration
from checkback_cli.doctor.finding import Finding, ok, warning
from checkback_cli.on_call.asking_job import Job
from conf import Settings

if TYPE_CHECKING:
    from status_page.facts import JobFacts

_STALLED_MS = 60_000


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
