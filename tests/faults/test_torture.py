"""The whole system under faults; ``docs/reliability.md`` says what they are and how to run more."""

import shutil
from pathlib import Path
from pprint import pformat
from urllib.parse import quote

import pytest

from tests.tables import Database
from torture.run import Options, TortureReport, torture

SEED = 91
"""Its first three rounds kill the driver in a transaction, Python workers after one, and the broker."""
SEED_WITH_TABLES = 150
"""Its first four rounds change settings, cut the database off, and kill the driver between two destinations, and an
executor."""


def judge(report: TortureReport, *destinations: str) -> None:
    assert not report.left_out
    assert report.holds, in_full(report)  # a text: pytest would cut the report short
    assert set(report.judgements) == set(destinations)
    if report.logs:  # a slow machine's; all is well
        shutil.rmtree(report.logs)


def in_full(report: TortureReport) -> str:
    logs = [log for name in ("job", "checks", "shop") if (log := Path(report.logs, f"{name}.log")).exists()]
    said = {str(log): log.read_text(errors="replace").splitlines()[-20:] for log in logs}
    return pformat((report, said), width=120)


@pytest.mark.timeout(2400)
@pytest.mark.parametrize("rounds", [1, pytest.param(3, marks=pytest.mark.lab)])
def test_nothing_is_lost_repeated_leaked_or_changed(rounds: int) -> None:
    report = torture(Options(SEED, rounds=rounds, with_neighbours=False, brief=True))
    judge(report, "kafka")
    assert len(report.rounds) == rounds
    assert report.judgements["kafka"].expected > 50 * rounds


@pytest.mark.lab
@pytest.mark.timeout(2400)
def test_nor_is_anything_in_tables(database: Database) -> None:
    database.run(f"GRANT CREATE ON DATABASE postgres TO {database.user}")
    url = f"postgresql://{database.user}:{quote(database.password)}@127.0.0.1:{database.port}/postgres"
    report = torture(Options(SEED_WITH_TABLES, rounds=4, postgresql_url=url, with_neighbours=False))
    judge(report, "kafka", "lake", "files", "warehouse")
    assert len(report.rounds) == 4
    assert min(judged.expected for judged in report.judgements.values()) > 200
    assert any("warehouse could not take batch" in stop for done in report.rounds for stop in done.stops)
