"""``checkback torture``."""

import json
import os
import signal
import sys
from dataclasses import asdict
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from lab_cli.torture_rounds import Senders, torture_senders

if TYPE_CHECKING:
    from torture.effects.run import EffectsReport, EffectsRound
    from torture.forgetting.run import ForgettingReport
    from torture.large_batches import LargeReport
    from torture.run import RoundReport, TortureReport
    from torture.shops.run import ShopsReport, ShopsRound

Tables = Annotated[bool, typer.Option("--tables", help="Send messages to a Delta table and Parquet files, too.")]
Postgresql = Annotated[
    str,
    typer.Option(
        help="Send them to a table there, too: postgresql://user:password@host:port/database. A schema is made for the "
        "run, and dropped when all held. With --consumers: the database of their effects; 'local' starts one, which "
        "is crashed and restarted.",
        envvar="TORTURE_POSTGRESQL",
        show_default=False,
        show_envvar=True,
    ),
]
_DECK_OF_QUIET = 5
_DECK_OF_MADE_AGAIN = 91


class _Order(StrEnum):
    NONE = "none"
    KEY = "key"


JsonFile = Annotated[
    Path | None, typer.Option("--json", help="Also write the full report to this file.", show_default=False)
]


def run_torture(
    minutes: Annotated[
        float | None,
        typer.Option(
            min=0.1,
            help="How long to run; with --quiet, how long each quiet period lasts (10 by default).",
            show_default=False,
        ),
    ] = None,
    rounds: Annotated[int | None, typer.Option(min=1, help="Number of rounds; 30 if --minutes is not given.")] = None,
    seed: Annotated[
        int, typer.Option(min=0, help="Seed of the schedule: the same seed gives the same faults in the same order.")
    ] = 1,
    executors: Annotated[
        int,
        typer.Option(
            min=0, max=2, help="Number of Spark executors, which share two cores; 0: the driver runs all tasks."
        ),
    ] = 1,
    large_batches: Annotated[
        bool,
        typer.Option(
            "--large-batches", help="Only this: inject faults in the middle of batches of 100,000 transactions."
        ),
    ] = False,
    consumers: Annotated[
        bool,
        typer.Option(
            "--consumers",
            help="Only this: inject faults into consumers that write to a database; 35 rounds, more with PostgreSQL.",
        ),
    ] = False,
    quiet: Annotated[
        bool,
        typer.Option(
            "--quiet",
            help="Only this: shorten everything that expires in Kafka to a minute or less, stay idle, then resume; "
            "5 rounds.",
        ),
    ] = False,
    made_again: Annotated[
        bool,
        typer.Option(
            "--made-again",
            help="Only this: delete and recreate topics, or truncate their logs; 91 rounds.",
        ),
    ] = False,
    power: Annotated[
        bool,
        typer.Option(
            "--power",
            help="Only this: simulate power loss of a machine: the job's, the producers' with their database, a broker "
            "of three. Needs root and loop devices (Linux).",
        ),
    ] = False,
    pauses: Annotated[
        bool, typer.Option("--pauses", help="Only this: pause processes for 5 to 60 s, then let them continue.")
    ] = False,
    disk: Annotated[
        bool,
        typer.Option(
            "--disk",
            help="Only this: fill the disk of the job's machine, make it fail, copy the checkpoint while it runs. "
            "Needs root and loop devices (Linux).",
        ),
    ] = False,
    lanes: Annotated[
        bool,
        typer.Option(
            "--lanes",
            help="Only this: kill and stop producers that deliver themselves, and who settles their lanes, at each "
            "step; 39 rounds.",
        ),
    ] = False,
    shops: Annotated[
        bool,
        typer.Option(
            "--shops",
            help="Only this: kill and stop shops with a transaction log in MariaDB and PostgreSQL, two of them on "
            "Django, at each step, and their databases; 26 rounds. Both servers must be installed.",
        ),
    ] = False,
    gateway: Annotated[
        bool,
        typer.Option(
            "--gateway",
            help="Only this: kill and stop two gateways, their clients over HTTP and RocketMQ's gRPC, and what they "
            "need; 30 rounds.",
        ),
    ] = False,
    network: Annotated[
        bool,
        typer.Option(
            "--network",
            help="Only this: reset connections of producers that deliver themselves, and let the request on its way "
            "arrive late, every 2 s; 16 rounds. No job runs.",
        ),
    ] = False,
    transactions: Annotated[
        int | None,
        typer.Option(min=1, help="With --network: run until this many transactions have ended.", show_default=False),
    ] = None,
    cluster: Annotated[
        bool,
        typer.Option(
            "--cluster",
            help="Only this: kill workers, executors, Spark's master, the driver, brokers and HDFS's nodes. The job "
            "runs on Spark's own cluster of two workers, with three brokers and its checkpoint in HDFS.",
        ),
    ] = False,
    s3: Annotated[
        bool, typer.Option("--s3", help="With --cluster: its checkpoint is in S3, whose server is killed and stopped.")
    ] = False,
    sinks: Annotated[
        bool,
        typer.Option(
            "--sinks",
            help="Only this: kill and stop a job with four tables, PostgreSQL and S3; lose their answers; make them "
            "unavailable; cut the power. Needs PostgreSQL installed, root and loop devices (Linux).",
        ),
    ] = False,
    inbox: Annotated[
        bool,
        typer.Option(
            "--inbox/--without-inbox",
            help="With --consumers: without the inbox, duplicates are counted but are not a failure.",
        ),
    ] = True,
    order: Annotated[
        _Order,
        typer.Option(help="With --consumers: the order they keep; with key, each key's effects must be in order."),
    ] = _Order.NONE,
    tables: Tables = False,
    postgresql: Postgresql = "",
    neighbours: Annotated[
        bool,
        typer.Option(
            "--neighbours/--alone",
            help="Run two other producer groups: the check endpoint of one hangs, the other sends floods.",
        ),
    ] = True,
    json_file: JsonFile = None,
) -> None:
    """Break the running system over and over, and compare the producers' database with what consumers got.

    A broker, a job with executors of its own, a check service and producers are started on this machine. Each round
    kills, stops or damages one of them, or sets the clock back. Exit status 1 when a promise did not hold, 75 when the
    machine was too slow for a verdict.
    """
    from checkback.consumer import Order
    from torture.decks import Deck
    from torture.effects.run import Options as EffectsOptions
    from torture.effects.run import torture_effects
    from torture.effects.system import Group
    from torture.forgetting.run import made_again_deck, quiet_deck, torture_forgetting
    from torture.run import Options, torture, torture_large_batches
    from torture.shops.run import torture_shops

    # so that SIGTERM, too, ends what has been started
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    console = Console(soft_wrap=True, highlight=False)

    def tell(done: "RoundReport") -> None:
        console.print(f"round {done.number}: {done.fault}; delivered again after {done.recovery_seconds} s")
        if done.lost_bytes:
            console.print(f"    {done.lost_bytes:,} bytes of its topics were not on its disk")
        for stop in done.stops:
            console.print(f"    a job stopped: {stop}", markup=False)

    if consumers:
        console.print(f"Starting Kafka, the job, a producer and consumers; seed {seed} ...")
        group = Group(inbox, Order(order))
        of_effects = EffectsOptions(seed, rounds, group, postgresql)
        _show_effects(torture_effects(of_effects, partial(_tell_effects, console)), console, json_file)
        return
    if quiet or made_again:
        console.print(f"Starting Kafka, the job, a producer, consumers and pull readers; seed {seed} ...")
        of_quiet = quiet_deck(seed, *([minutes * 60] if minutes else []))
        deck, whole = (of_quiet, _DECK_OF_QUIET) if quiet else (made_again_deck(seed), _DECK_OF_MADE_AGAIN)
        told = partial(_tell_effects, console)
        _show_forgetting(torture_forgetting(seed, rounds or whole, deck, told, console.print), console, json_file)
        return
    if shops:
        console.print(f"Starting MariaDB, PostgreSQL, Kafka, the job, shops and a consumer; seed {seed} ...")
        _show_shops(torture_shops(seed, rounds, partial(_tell_shops, console), minutes=minutes), console, json_file)
        return
    if network or lanes or gateway:
        which = Senders.NETWORK if network else Senders.LANES if lanes else Senders.GATEWAYS
        torture_senders(which, seed, rounds, transactions, console, json_file)
        return
    console.print(f"Starting Kafka, the job, a check service and producers; seed {seed} ...")
    struck = Deck.POWER if power else Deck.PAUSES if pauses else Deck.DISK if disk else Deck.ALL
    struck = (Deck.CLUSTER_ON_S3 if s3 else Deck.CLUSTER) if cluster else Deck.SINKS if sinks else struck
    neighbours = neighbours and not sinks
    options = Options(
        seed, rounds or (None if minutes else 30), minutes, executors, tables, postgresql, neighbours, struck
    )
    if large_batches:
        _show_large(torture_large_batches(options, lambda line: console.print(line, markup=False)), console, json_file)
        return
    _show(torture(options, tell), console, json_file)


def _show(report: "TortureReport", console: Console, json_file: Path | None) -> None:
    for fault in report.left_out:
        console.print(f"Left out: {fault} (it needs Linux and a C compiler).")
    if json_file is not None:
        json_file.write_text(json.dumps(asdict(report), indent=2), encoding="utf-8")
    console.print(f"{len(report.rounds)} rounds in {report.seconds:.0f} s.")
    for name, judged in report.judgements.items():
        console.print(f"{name}: {judged.expected} in the database, {judged.delivered} delivered; {judged}.")
    if report.of_neighbours:
        console.print(f"{report.of_neighbours} of those in Kafka are the neighbours'.")
    if report.logs:
        console.print(f"Logs are kept in {report.logs}.")
    if not report.holds and report.inconclusive:
        console.print(f"[bold yellow]No verdict[/]: {report.defect}")
        raise typer.Exit(os.EX_TEMPFAIL)
    if not report.holds:
        console.print(f"[bold red]A promise did not hold[/]: {report.defect}")
        raise typer.Exit(1)


def _show_large(report: "LargeReport", console: Console, json_file: Path | None) -> None:
    if json_file is not None:
        json_file.write_text(json.dumps(asdict(report), indent=2), encoding="utf-8")
    console.print(f"{len(report.rounds)} rounds in {report.backlogs} batches, {report.seconds:.0f} s.")
    console.print(f"kafka: {report.committed} committed; {report.verdict}.")
    if not report.holds:
        console.print(f"Logs are kept in {report.logs}.")
        console.print(f"[bold red]A promise did not hold[/]: {report.defect}")
        raise typer.Exit(1)


def _tell_shops(console: Console, done: "ShopsRound") -> None:
    console.print(f"round {done.number}: {done.fault}; each shop delivered again after {done.seconds} s", markup=False)
    for stop in done.stops:
        console.print(f"    ended by itself: {stop}", markup=False)


def _show_shops(report: "ShopsReport", console: Console, json_file: Path | None) -> None:
    if json_file is not None:
        json_file.write_text(json.dumps(asdict(report), indent=2), encoding="utf-8")
    console.print(f"{len(report.rounds)} rounds in {report.seconds:.0f} s.")
    for kind, outcomes in report.outcomes.items():
        console.print(f"{kind}: {report.orders.get(kind, 0)} orders committed")
        for outcome, count in outcomes.items():
            console.print(f"    {count} {outcome}", markup=False)
    if report.judgement is not None:
        found = report.judgement
        console.print(f"kafka: {found.expected} in the databases, {found.delivered} delivered; {found}.")
    if report.effects is not None:
        booked = report.effects
        console.print(f"inbox: {booked.orders} orders, {booked.effects} effects, {booked.dead} dead letters; {booked}.")
    if report.logs:
        console.print(f"Logs are kept in {report.logs}.")
    if report.inconclusive:
        console.print("[bold yellow]No verdict[/]: not all had come to rest when the time was over.")
        raise typer.Exit(os.EX_TEMPFAIL)
    if not report.holds:
        console.print(f"[bold red]A promise did not hold[/]: {report.defect}")
        raise typer.Exit(1)


def _tell_effects(console: Console, done: "EffectsRound") -> None:
    took = f"{done.seconds} s, of which {done.recovery_seconds} until each partition went on"
    console.print(f"round {done.number}: {done.fault}; {took}", markup=False)
    for stop in done.stops:
        console.print(f"    ended by itself: {stop}", markup=False)
    if done.wrong:
        console.print(f"    did not hold: {done.wrong}", markup=False)


def _show_forgetting(report: "ForgettingReport", console: Console, json_file: Path | None) -> None:
    if json_file is not None:
        json_file.write_text(json.dumps(asdict(report), indent=2), encoding="utf-8")
    console.print(f"{len(report.rounds)} rounds in {report.seconds:.0f} s.")
    if report.verdict is not None:
        found = report.verdict
        counted = f"{found.orders} orders, {found.effects} effects, {found.dead} dead letters, {report.gone} gone"
        console.print(f"{counted}; {found}.")
    if not report.holds:
        console.print(f"Logs are kept in {report.logs}.")
        for defect in report.defects:
            console.print(f"A promise did not hold: {defect}", markup=False)
        raise typer.Exit(1)


def _show_effects(report: "EffectsReport", console: Console, json_file: Path | None) -> None:
    if json_file is not None:
        json_file.write_text(json.dumps(asdict(report), indent=2), encoding="utf-8")
    console.print(
        f"{len(report.rounds)} rounds in {report.seconds:.0f} s, {'with' if report.inbox else 'without'} inbox."
    )
    if report.verdict is not None:
        counted = (
            f"{report.verdict.orders} orders, {report.verdict.effects} effects, {report.verdict.dead} dead letters"
        )
        console.print(f"{counted}; {report.verdict}.")
    for reason, count in report.reasons.items():
        console.print(f"    {count} dead letters: {reason}", markup=False)
    for one in report.not_at_rest:
        console.print(f"    not at rest: {one}", markup=False)
    if report.logs:
        console.print(f"Logs are kept in {report.logs}.")
    if report.schema:
        console.print(f"In the database the schema {report.schema} is kept.")
    if report.inconclusive:
        console.print("[bold yellow]No verdict[/]: not all had come to rest when the time was over.")
        raise typer.Exit(os.EX_TEMPFAIL)
    if not report.holds:
        console.print(f"[bold red]A promise did not hold[/]: {report.defect}")
        raise typer.Exit(1)
