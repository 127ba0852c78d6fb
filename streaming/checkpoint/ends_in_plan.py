"""Where the half partitions end, as a column that finds other numbers in each batch.

The query's plan is made once, and a constant that changed from batch to batch would change the generated Java code
(docs/decisions/0007). So the numbers are in an array that the plan only refers to: Spark hands it to the tasks of a
stage when that begins, as the driver's Java has it by then. One batch is run at a time.
"""

import struct
from collections.abc import Mapping
from typing import Any

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F  # noqa: N812  (as everybody calls it)


class EndsInPlan:
    """For one query."""

    def __init__(self, spark: SparkSession) -> None:
        context: Any = spark.sparkContext
        self._jvm = context._jvm
        self._gateway = context._gateway  # noqa: SLF001  (arrays of Java are made there)
        catalyst: Any = self._jvm.org.apache.spark.sql.catalyst
        numbers = self._jvm.org.apache.spark.sql.types.DataType.fromDDL("array<array<bigint>>")
        content = self._gateway.new_array(self._jvm.java.lang.Object, 1)
        content[0] = self._array({})
        self._content = catalyst.util.GenericArrayData(content)
        literal = catalyst.expressions.Literal(self._content, numbers)
        self._ends = Column(self._jvm.org.apache.spark.sql.classic.ExpressionUtils.column(literal))

    def of(self, partition: Column) -> Column:
        """The offset behind the last half message there; null where it is not known."""
        # with a number in place of this, Spark would look it up when it makes the plan
        first = partition - partition
        return F.get(F.get(self._ends, first), partition)

    def tell(self, ends: Mapping[int, int]) -> None:
        """Let the batch know that is about to be evaluated; of partitions that are missing, nothing is known."""
        self._content.update(0, self._array(ends))

    def _array(self, ends: Mapping[int, int]) -> Any:
        most = max(ends, default=-1) + 1
        packed = struct.pack(f">{most}q", *(ends.get(number, (1 << 63) - 1) for number in range(most)))
        numbers = self._gateway.new_array(self._jvm.long, most)
        self._jvm.java.nio.ByteBuffer.wrap(packed).asLongBuffer().get(numbers)  # one call, however many there are
        return self._jvm.org.apache.spark.sql.catalyst.expressions.UnsafeArrayData.fromPrimitiveArray(numbers)
