"""The user's database in a fault run: what is wrong with it is said before anything is started."""

import tempfile
from pathlib import Path

import pytest

from checkback.exceptions import ConfigurationError
from checkback.local import LocalKafka
from checkback.local.kafka import free_port
from tests.tables import Database
from torture.postgresql import Postgresql
from torture.run import Options, torture


@pytest.mark.parametrize("url", ["nonsense", "postgresql://", "mysql://somebody:secret@127.0.0.1/x"])
def test_an_address_that_is_none(url: str) -> None:
    with pytest.raises(ConfigurationError, match=r"^--postgresql must be "):
        Postgresql(url).prepare()


def test_a_database_that_does_not_answer_stops_a_run_before_it_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LocalKafka, "start", lambda _self: pytest.fail("a broker was started"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(ConfigurationError, match=r"--postgresql cannot be used: .*refused"):
        torture(Options(rounds=1, postgresql_url=f"postgresql://somebody:secret@127.0.0.1:{free_port()}/x"))
    assert list(tmp_path.iterdir()) == []


def test_a_run_leaves_nothing_in_the_database(database: Database) -> None:
    database.run(f"GRANT CREATE ON DATABASE postgres TO {database.user}")
    password = database.password.replace(" ", "%20")
    ours = Postgresql(f"postgresql://{database.user}:{password}@127.0.0.1:{database.port}/postgres")
    ours.prepare()
    assert list(ours.rows(["id"])) == []  # no job has made the table yet
    with pytest.raises(ConfigurationError, match="already exists"):
        ours.prepare()
    ours.remove()
    ours.prepare()
    ours.remove()
