"""The process Spark forks its Python workers from, with everything they need imported once, before the fork.

PySpark's own daemon imports next to nothing: each worker then spends seconds on pandas and Arrow, all at the
same time, in the first batch. Named by ``spark.python.daemon.module``; ``prepare_worker`` is called here, too, so
that what was imported is shared and stays out of every worker's garbage collections. Its workers read what Spark pipes
to them to its mark (``streaming.python_worker.whole_input``), give the state's function Arrow's columns
(``streaming.python_worker.arrow_state``), and end quietly when Spark has given their task up
(``streaming.python_worker.given_up``).
"""

from pyspark.daemon import manager

from streaming.python_worker.arrow_state import use_arrow_for_states
from streaming.python_worker.given_up import end_quietly
from streaming.python_worker.preparation import prepare_worker
from streaming.python_worker.whole_input import watch_inputs

if __name__ == "__main__":
    watch_inputs()
    end_quietly()
    use_arrow_for_states()
    prepare_worker()
    manager()
