"""What ``checkback torture`` says of runs with rounds: of lanes, gateways and networks."""

import json
import os
from collections.abc import Iterable
from dataclasses import asdict
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.console import Console

if TYPE_CHECKING:
    from torture.gateways.run import GatewaysReport
    from torture.lanes.rounds import RoundDone, RoundsReport
    from torture.lanes.run import LanesReport
    from torture.network.run import NetworkReport


class Senders(StrEnum):
    """Whose producers are under fault."""

    LANES = "lanes"
    GATEWAYS = "gateways"
    NETWORK = "network"


def torture_senders(
    which: Senders, seed: int, rounds: int | None, transactions: int | None, console: Console, json_file: Path | None
) -> None:
    """Run rounds, and show what came of them. Raises Exit with the status."""
    from torture.gateways.run import torture_gateways
    from torture.lanes.run import torture_lanes
    from torture.network.run import torture_network

    parts = "Kafka behind a proxy, and" if which is Senders.NETWORK else "Kafka, the job, a check service and"
    console.print(f"Starting {parts} producers; seed {seed} ...")
    told = partial(_tell, console)
    if which is Senders.NETWORK:
        show_network(torture_network(seed, rounds, told, transactions=transactions), console, json_file)
    elif which is Senders.LANES:
        show_lanes(torture_lanes(seed, rounds, told), console, json_file)
    else:
        show_gateways(torture_gateways(seed, rounds, told), console, json_file)


def _tell(console: Console, done: "RoundDone") -> None:
    console.print(
        f"round {done.number}: {done.fault}; all sent before it readable after {done.seconds} s", markup=False
    )
    for stop in done.stops:
        console.print(f"    ended by itself: {stop}", markup=False)


def show_lanes(report: "LanesReport", console: Console, json_file: Path | None) -> None:
    """All of a run. Raises Exit with its status."""
    seconds, said = report.until_readable, list[str]()
    if seconds:
        middle, most = seconds[len(seconds) // 2], seconds[-1]
        said.append(f"A dead producer's messages were readable within {most} s, half of the times within {middle} s.")
    _show(report, said, report.defect, console, json_file)


def show_gateways(report: "GatewaysReport", console: Console, json_file: Path | None) -> None:
    """All of a run. Raises Exit with its status."""
    said = [f"{report.sent_again} sent to another gateway, too; {report.twins} of them have several half messages."]
    said += [f"    twice: {name}: {'; '.join(halves)}" for name, halves in report.twice.items()]
    why = report.defect or f"{len(report.twice)} were delivered twice, as both half messages were committed."
    _show(report, said, why, console, json_file)


def show_network(report: "NetworkReport", console: Console, json_file: Path | None) -> None:
    """All of a run. Raises Exit with its status."""
    ended = ", ".join(f"{number} {told}" for told, number in report.transactions.items())
    lines = [f"{report.disturbed} requests disturbed; transactions: {ended}; {len(report.torn)} torn."]
    lines += [f"    {number} did not begin: {error}" for error, number in report.errors.items()]
    if not report.holds:
        lines.append(f"The last round alone: {report.again}")
    _show(report, lines, report.defect, console, json_file)


def _show(report: "RoundsReport", said: Iterable[str], defect: str, console: Console, json_file: Path | None) -> None:
    if json_file is not None:
        json_file.write_text(json.dumps(asdict(report), indent=2), encoding="utf-8")
    console.print(f"{len(report.rounds)} rounds in {report.seconds:.0f} s.")
    if report.judgement is not None:
        found = report.judgement
        console.print(f"kafka: {found.expected} in the database, {found.delivered} delivered; {found}.")
    for line in said:
        console.print(line, markup=False)
    for reason, number in report.rejected.items():
        console.print(f"    {number} rejected: {reason}", markup=False)
    if report.logs:
        console.print(f"Logs are kept in {report.logs}.")
    if report.inconclusive:
        console.print("[bold yellow]No verdict[/]: not all had been decided when the time was over.")
        raise typer.Exit(os.EX_TEMPFAIL)
    if not report.holds:
        console.print("[bold red]A promise did not hold[/]:", defect)
        raise typer.Exit(1)
