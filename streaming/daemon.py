"""The process Spark forks its Python workers from, with everything they need imported once, before the fork.

PySpark's own daemon imports next to nothing: each worker then spends seconds on pandas and Arrow, all at the
same time, in the first batch. Named by ``spark.python.daemon.module``; ``prepare_worker`` is called here, too, so
that what was imported is shared and stays out of every worker's garbage collections. Its workers read what Spark pipes
to them to its mark: see ``streaming.whole_input``.
"""

from pyspark.daemon import manager

import streaming.segments
import streaming.sink  # noqa: F401  (imported for the workers)
from streaming.whole_input import watch_inputs
from streaming.worker import prepare_worker

if __name__ == "__main__":
    watch_inputs()
    prepare_worker()
    manager()
