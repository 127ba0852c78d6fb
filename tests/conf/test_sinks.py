"""Section [sinks]: what is taken, what is refused, and in which words."""

from pathlib import Path

import pytest

from checkback.exceptions import ConfigurationError
from conf import DeltaTable, ParquetFiles, PostgresqlTable, load, origins

TABLES = """
[sinks.tables]
lake = { kind = "delta", path = "s3a://bucket/lake" }
files = { kind = "parquet", path = "/data/files" }
warehouse = { kind = "postgresql", url = "jdbc:postgresql://db/shop", user = "u", password = "geheim" }
"""


def settings_file(folder: Path, text: str) -> Path:
    file = folder / "mine.toml"
    file.write_text(text, encoding="utf-8")
    return file


def refused(folder: Path, text: str) -> str:
    with pytest.raises(ConfigurationError) as error:
        load(settings_file(folder, text))
    return str(error.value)


def test_each_kind_is_told_by_its_word(tmp_path: Path) -> None:
    rule = '[sinks]\nrules = [{ topic = "orders-*", to = ["kafka", "lake"] }]\n'
    sinks = load(settings_file(tmp_path, rule + TABLES)).sinks
    kinds = {"lake": DeltaTable, "files": ParquetFiles, "warehouse": PostgresqlTable}
    assert {name: type(table) for name, table in sinks.tables.items()} == kinds
    assert [(rule.topic, rule.to) for rule in sinks.rules] == [("orders-*", ["kafka", "lake"])]


def test_a_password_is_never_shown(tmp_path: Path) -> None:
    file = settings_file(tmp_path, TABLES)
    assert load(file).sinks.tables["warehouse"].password.get_secret_value() == "geheim"  # type: ignore[union-attr]  # on purpose, for this test
    assert "geheim" not in repr(load(file))
    assert "geheim" not in str(origins(file))


def test_a_password_may_come_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHECKBACK_SINKS__TABLES__WAREHOUSE__PASSWORD", "other")
    table = load(settings_file(tmp_path, TABLES)).sinks.tables["warehouse"]
    assert isinstance(table, PostgresqlTable)
    assert (table.user, table.password.get_secret_value()) == ("u", "other")


def test_a_password_alone_configures_no_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``checkback status`` in the job's shell has no settings of the table."""
    monkeypatch.setenv("CHECKBACK_SINKS__TABLES__WAREHOUSE__PASSWORD", "geheim")
    assert load(settings_file(tmp_path, "")).sinks.tables == {}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[sinks]\nrules = [{ topic = "a", to = ["lak"] }]\n' + TABLES, "topics a go to lak, which sinks.tables does"),
        ('[sinks]\nrules = [{ topic = "a", to = [] }]\n', "sinks.rules.0.to"),
        ('[sinks]\nrules = [{ topic = "a", to = ["kafka", "kafka"] }]\n', "named twice for the topics a"),
        ('[sinks]\nrules = [{ topic = "a", to = ["kafka"] }, { topic = "a", to = ["kafka"] }]\n', "two rules for a"),
        ('[sinks]\nrules = [{ topics = "a", to = ["kafka"] }]\n', "topics: unknown key (did you mean topic?)"),
        ('[sinks.tables.kafka]\nkind = "delta"\npath = "x"\n', "the name kafka is taken"),
        ('[sinks.tables.a]\nkind = "delte"\npath = "x"\n', "sinks.tables.a"),
        ('[sinks.tables.a]\npath = "x"\n', "sinks.tables.a"),
        ('[sinks.tables.a]\nkind = "delta"\npth = "x"\n', "pth: unknown key (did you mean path?)"),
        ('[sinks.tables.a]\nkind = "parquet"\npath = "s3a://b/x"\n', "use kind = 'delta'"),
        ('[sinks.tables.a]\nkind = "postgresql"\nurl = "postgresql://db/shop"\n', "sinks.tables.a.postgresql.url"),
        ('[sinks.tables.a]\nkind = "postgresql"\nurl = "jdbc:postgresql://d/s?password=x"\n', "keys of their own"),
        (
            '[sinks.tables.a]\nkind = "postgresql"\nurl = "jdbc:postgresql://d/s"\ntable = "a; drop"\n',
            "sinks.tables.a.postgresql.table",
        ),
        (
            '[sinks.tables]\na = { kind = "delta", path = "x" }\nb = { kind = "parquet", path = "x/" }\n',
            "a and b are the same place",
        ),
        *(
            (
                f'[sinks.tables]\na = {{kind = "delta", path = "{outer}"}}\nb = {{kind = "delta", path = "{inner}"}}\n',
                "one of a and b is in the folder of the other",
            )
            for outer, inner in (("/x", "/x/y"), ("/x/y", "/x"), ("s3a://bucket", "s3a://bucket/y"))
        ),
        (
            TABLES + '[sinks.tables.b]\nkind = "postgresql"\nurl = "jdbc:postgresql://db/shop?ssl=true"\n',
            "warehouse and b are the same place",
        ),
    ],
)
def test_what_cannot_be_is_named(text: str, said: str, tmp_path: Path) -> None:
    assert said in refused(tmp_path, text)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("{}/a", "file:{}/a", True),
        ("{}/a", "file:///{}//./a/", True),
        ("{}/a", "{}/link", True),
        ("{}/a", "{}/b", False),
        ("{}/a:1", "{}/./a:1", True),
        ("s3a://b/x", "s3a://b//./x/", True),
        ("s3a://b/x", "s3a://c/x", False),
        ("hdfs:/x", "hdfs:///y/../x", True),
    ],
)
def test_one_folder_under_two_names_is_one_place(one: str, other: str, *, same: bool, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "a")
    first, second = (ParquetFiles.model_construct(path=path.format(tmp_path)).place for path in (one, other))
    assert (first == second) == same
