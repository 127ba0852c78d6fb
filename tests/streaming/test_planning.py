"""Spark skips the rules that change nothing in our plans, and each of them is there to be skipped."""

from pyspark.sql import SparkSession

from streaming.session import EXCLUDED_RULES


def rules_of_a_plan(session: SparkSession) -> str:
    """The names of all that Spark tried on one, with times."""
    rules = session._jvm.org.apache.spark.sql.catalyst.rules.RuleExecutor  # type: ignore[union-attr]  # it has one
    rules.resetMetrics()
    session.range(5).selectExpr("id + 1 AS one").where("one > 2").collect()
    return str(rules.dumpTimeSpent())


def test_no_excluded_rule_is_tried(spark: SparkSession) -> None:
    tried = rules_of_a_plan(spark)
    assert "optimizer.ColumnPruning " in tried
    assert [rule for rule in EXCLUDED_RULES if f"{rule} " in tried] == []


def test_each_excluded_rule_is_one_of_sparks(spark: SparkSession) -> None:
    untouched = spark.newSession()
    untouched.conf.set("spark.sql.optimizer.excludedRules", "")
    tried = rules_of_a_plan(untouched)
    assert [rule for rule in EXCLUDED_RULES if f"{rule} " not in tried] == []
