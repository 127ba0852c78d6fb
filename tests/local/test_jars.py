"""Which jars go on Spark's class path: those of what is configured, and none that Spark has."""

from pathlib import Path

import pyspark
import pytest

from checkback.local import spark_jars


def names(*kinds: str) -> set[str]:
    return {jar.name for jar in spark_jars(kinds)}


def artifact(jar: str) -> str:
    return jar.rpartition("-")[0]


def test_jars_of_tables_are_added_only_when_asked_for() -> None:
    plain = names()
    assert [jar for jar in plain if jar.startswith(("delta", "postgresql"))] == []
    assert names("parquet") == plain
    assert {artifact(jar) for jar in names("postgresql") - plain} == {"postgresql"}
    assert {"delta-spark_4.2_2.13", "delta-storage"} <= {artifact(jar) for jar in names("delta") - plain}


def test_jars_of_a_store_are_added_only_when_asked_for_and_without_all_of_amazon() -> None:
    own = {artifact(jar) for jar in names("s3a") - names()}
    assert {"hadoop-aws", "s3", "netty-nio-client"} <= own
    assert "bundle" not in own


@pytest.mark.parametrize("kind", ["delta", "postgresql", "s3a"])
def test_no_jar_is_there_twice(kind: str) -> None:
    own = {artifact(jar.name) for jar in (Path(pyspark.__file__).parent / "jars").glob("*.jar")}
    assert {artifact(jar) for jar in names(kind)} & own == set()
