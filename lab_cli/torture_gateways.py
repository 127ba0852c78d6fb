"""What ``checkback torture --gateway`` says."""

import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.console import Console

if TYPE_CHECKING:
    from torture.gateways.run import GatewaysReport


def show_gateways(report: "GatewaysReport", console: Console, json_file: Path | None) -> None:
    """All of a run. Raises Exit with its status."""
    if json_file is not None:
        json_file.write_text(json.dumps(asdict(report), indent=2), encoding="utf-8")
    console.print(f"{len(report.rounds)} rounds in {report.seconds:.0f} s.")
    if report.judgement is not None:
        found = report.judgement
        console.print(f"kafka: {found.expected} in the database, {found.delivered} delivered; {found}.")
    console.print(
        f"{report.sent_again} sent to another gateway, too; {report.twins} of them have several half messages."
    )
    for name, halves in report.twice.items():
        console.print(f"    twice: {name}: {'; '.join(halves)}", markup=False)
    for reason, number in report.rejected.items():
        console.print(f"    {number} rejected: {reason}", markup=False)
    if report.logs:
        console.print(f"Logs are kept in {report.logs}.")
    if report.inconclusive:
        console.print("[bold yellow]No verdict[/]: not all had been decided when the time was over.")
        raise typer.Exit(os.EX_TEMPFAIL)
    if not report.holds:
        why = report.defect or f"{len(report.twice)} were delivered twice, as both half messages were committed."
        console.print("[bold red]A promise did not hold[/]:", why)
        raise typer.Exit(1)
