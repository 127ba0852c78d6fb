"""A function of each item of an array, without leaving Spark's code generation.

``F.transform`` does the same and takes its whole projection out of it (docs/decisions/0007). Spark maps the arrays of
its own encoders with the expression that is used here, which Python has no name for.
"""

from collections.abc import Callable
from itertools import count
from typing import Any

from pyspark.sql import Column, SparkSession

_NUMBERS = count(1)
"""Of variables; Spark gives them others when it makes the plan, so that the generated code stays the same."""


def each_item(spark: SparkSession, array: Column, kind: str, function: Callable[[Column], Column]) -> Column:
    """The array of what ``function`` makes of each item; ``kind`` is the items' type, in SQL's words."""
    jvm: Any = spark.sparkContext._jvm
    expressions, columns = jvm.org.apache.spark.sql.catalyst.expressions, jvm.org.apache.spark.sql.classic
    item_type = jvm.org.apache.spark.sql.types.DataType.fromDDL(kind)
    item = expressions.objects.LambdaVariable("item", item_type, True, next(_NUMBERS))  # noqa: FBT003  (Spark's own: may be null)

    def in_java(column: Any) -> Any:
        return columns.ExpressionUtils.expression(column._jc)  # noqa: SLF001  (Python's has no name for it)

    made = in_java(function(Column(columns.ExpressionUtils.column(item))))
    mapped = expressions.objects.MapObjects(item, made, in_java(array), jvm.scala.Option.empty())
    return Column(columns.ExpressionUtils.column(mapped))
