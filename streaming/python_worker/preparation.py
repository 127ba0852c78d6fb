"""What a Python worker process of Spark does once, so that each of its tasks starts quickly."""

import gc
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path

from pyspark import TaskContext

_named = ""


@cache
def prepare_worker() -> None:
    """Rid this worker of two costs that PySpark has in every task.

    It calls ``importlib.invalidate_caches()``, which reads the directory of each jar on the path again, Spark's own
    with thousands of classes: no Python is imported from jars, so they leave the path. And it forces a
    garbage collection: what was imported until now is kept out of it (25 ms each), and no other is needed between.
    """
    sys.path[:] = [entry for entry in sys.path if not entry.endswith(".jar")]
    for entry in [entry for entry in sys.path_importer_cache if entry.endswith(".jar")]:
        del sys.path_importer_cache[entry]
    gc.collect()
    gc.freeze()
    gc.disable()


def name_worker(role: str) -> None:
    """Name this process after what it does now and for which state partition, on Linux: ``cb-state-1``, ``cb-sink-0``.

    For who looks at the processes of a machine, and for fault runs. A worker has another name with its next task.
    """
    global _named  # noqa: PLW0603  (one name for the one process)
    context = TaskContext.get()
    name = f"cb-{role}-{context.partitionId() if context else 0}"
    if name != _named:
        with suppress(OSError):
            Path("/proc/self/comm").write_text(name, encoding="utf-8")
        _named = name
