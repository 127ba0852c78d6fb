"""``checkback doctor``."""

import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated

import typer

from checkback.exceptions import CheckbackError
from checkback_cli.terminal.options import WRONG, AsJson, BootstrapServer, ConfigFile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from rich.console import Console

    from checkback.operations.topic_facts import TopicFacts
    from checkback_cli.doctor.finding import Finding
    from conf import Settings

_STYLES = {"ok": "green", "warning": "yellow", "wrong": "bold red"}


def doctor(
    strict: Annotated[bool, typer.Option("--strict", help="Exit status 1 for warnings, too.")] = False,
    as_json: AsJson = False,
    config: ConfigFile = None,
    bootstrap_server: BootstrapServer = None,
) -> None:
    """Look whether everything is as a job needs it, and say what to do where it is not.

    Settings; the access policy; this machine (Java, jars, packages, disk); Kafka, its topics, rights and clock; the
    checkpoint; the job; the producers' endpoints. Run it where the job runs. Writes one record to cb.progress, to hear
    Kafka's time, and asks no producer anything. Exit status 0: nothing is wrong; 1: something is.
    """
    from rich.console import Console

    found: list[Finding] = []
    console = Console(soft_wrap=True, highlight=False)
    for finding in _findings(config, bootstrap_server):
        found.append(finding)
        _show(finding, console, as_json)
    worst = {finding.level for finding in found}
    if not as_json and console.is_terminal:
        console.print(_summary(found))
    if "wrong" in worst or (strict and "warning" in worst):
        raise typer.Exit(WRONG)


def _findings(config: ConfigFile, bootstrap_server: BootstrapServer) -> "Iterator[Finding]":
    from checkback_cli.doctor.finding import wrong
    from checkback_cli.doctor.settings import about_policy, about_settings
    from conf import load

    try:
        settings = load(config, bootstrap_server)
    except CheckbackError as error:
        yield wrong(
            "settings",
            " ".join(str(error).split()),
            "correct them; 'checkback config' shows where each value comes from",
        )
        return
    yield from about_settings(settings, config, bootstrap_server)
    yield from _safely("policy", lambda: about_policy(settings))
    yield from _of_machine(settings)
    yield from _of_kafka(settings)


def _of_machine(settings: "Settings") -> "Iterator[Finding]":
    from checkback_cli.doctor import checkpoint, machine

    yield from _safely("Java", machine.about_java)
    yield from _safely("jars", lambda: machine.about_jars(settings))
    yield from _safely("packages", machine.about_packages)
    yield from _safely("disk", lambda: machine.about_disk(settings))
    yield from _safely("scratch", lambda: machine.about_scratch(settings))
    yield from _safely("master", lambda: checkpoint.about_master(settings))


def _of_kafka(settings: "Settings") -> "Iterator[Finding]":
    from checkback.operations.job_in_kafka import JobInKafka
    from checkback.operations.topics import admin_client
    from checkback_cli.doctor import brokers, checkpoint, job
    from checkback_cli.doctor.finding import wrong
    from checkback_cli.on_call.asking_job import claimed_job, configured_job

    kafka, topics = settings.kafka, settings.kafka.topics
    with ExitStack() as open_clients:
        begun = time.monotonic()
        try:
            admin = admin_client(kafka.bootstrap_servers, kafka.python_client)
        except CheckbackError as error:
            yield wrong("Kafka", str(error), "start it, or correct kafka.bootstrap_servers and kafka.security")
            yield from _safely("checkpoint", lambda: checkpoint.about_checkpoint(settings, None, {}))
            return
        open_clients.callback(admin.close)
        reached = time.monotonic() - begun
        in_kafka = open_clients.enter_context(JobInKafka(kafka.bootstrap_servers, topics, kafka.python_client))
        claim, found = None, configured_job(settings)
        try:
            claim = in_kafka.claim()
            found = found or claimed_job(settings, claim)
        except CheckbackError as error:
            yield wrong("rights", str(error), "grant it, or run this as the job's user")
        facts: dict[str, TopicFacts] = {}
        yield from _safely("Kafka", lambda: brokers.about_brokers(admin, settings, reached))
        yield from _safely("topics", lambda: brokers.about_topics(admin, settings, topics, facts))
        yield from _safely("rights", lambda: brokers.about_rights(admin, topics, facts))
        yield from _safely("clock", lambda: brokers.about_clock(settings, topics, facts))
        ids = {name: one.topic_id for name, one in facts.items()}
        yield from _safely("checkpoint", lambda: checkpoint.about_checkpoint(settings, claim, ids))
        if found is not None:
            yield from _safely("job", lambda: job.about_job(settings, found))
        yield from _safely("endpoints", lambda: job.about_endpoints(settings, topics, found and found.facts))


def _safely(about: str, look: "Callable[[], Iterable[Finding]]") -> "Iterator[Finding]":
    """What one part finds. That it cannot be looked at is a finding, too, and the others are looked at all the same."""
    from checkback.kafka.kafka_python.library import KafkaError
    from checkback_cli.doctor.finding import warning

    try:
        yield from look()
    except (CheckbackError, KafkaError, OSError) as error:
        yield warning(about, f"could not be checked: {error or type(error).__name__}", "see that this user may")


def _show(finding: "Finding", console: "Console", as_json: bool) -> None:
    from rich.markup import escape
    from rich.table import Table

    from checkback.wire.printable import printable
    from checkback_cli.terminal.listing import show_objects

    if as_json:
        show_objects([finding._asdict()])
        return
    if not console.is_terminal:
        typer.echo("\t".join(printable(part) for part in finding))
        return
    style = _STYLES[finding.level]
    rows = Table.grid(padding=(0, 1))
    rows.add_column(width=8)
    rows.add_column(width=11)
    rows.add_column(overflow="fold")  # what is too long for a line goes on below it, at the same column
    rows.add_row(f"[{style}]{finding.level}[/]", f"[bold]{finding.about}[/]", escape(printable(finding.said)))
    if finding.todo:
        rows.add_row("", "", f"[dim]→[/] {escape(printable(finding.todo))}")
    console.print(rows)


def _summary(found: "list[Finding]") -> str:
    counts = {level: sum(finding.level == level for finding in found) for level in _STYLES}
    return ", ".join(f"{number} {level}" for level, number in counts.items() if number)
