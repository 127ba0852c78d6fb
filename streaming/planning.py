"""What Spark need not do to plan a batch: it plans the same query for each one, and on one thread.

How it was found: ``docs/decisions/0032-less-planning-less-compiling.md``.
"""

_OPTIMIZER = "org.apache.spark.sql.catalyst.optimizer"
_SOURCES = "org.apache.spark.sql.execution.datasources"

EXCLUDED_RULES = (
    f"{_OPTIMIZER}.CollapseProject",
    f"{_OPTIMIZER}.CombineUnions",
    f"{_OPTIMIZER}.EliminateMapObjects",
    f"{_OPTIMIZER}.FoldablePropagation",
    f"{_OPTIMIZER}.OptimizeCsvJsonExprs",
    f"{_OPTIMIZER}.OptimizeOneRowRelationSubquery",
    f"{_OPTIMIZER}.RemoveRedundantAliases",
    f"{_OPTIMIZER}.SimplifyBinaryComparison",
    f"{_OPTIMIZER}.UnwrapCastInBinaryComparison",
    f"{_SOURCES}.PruneFileSourcePartitions",
    f"{_SOURCES}.PushVariantIntoScan",
    f"{_SOURCES}.SchemaPruning",
)
"""They take a quarter of the optimizer's time and change nothing in our plans. None is needed for a right answer: Spark
does not let those be excluded."""

PLANNING = {
    "spark.sql.optimizer.excludedRules": ",".join(EXCLUDED_RULES),
    # looks at the whole plan after each rule: for who writes rules
    "spark.sql.lightweightPlanChangeValidation": "false",
    # the plan as text, for Spark's own pages, which are off; "formatted" writes all of it twice
    "spark.sql.ui.explainMode": "simple",
    "spark.sql.constraintPropagation.enabled": "false",
}

# The planner has so much code that on two cores the JIT is busy with it for minutes, while batches wait. C2 compiles
# what runs four times as often as it would otherwise take; C1, which is cheap, as early as ever.
COMPILING = (
    "-XX:Tier4InvocationThreshold=20000",
    "-XX:Tier4MinInvocationThreshold=2400",
    "-XX:Tier4CompileThreshold=60000",
    "-XX:Tier4BackEdgeThreshold=160000",
)
