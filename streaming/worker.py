"""What a Python worker process of Spark does once, so that each of its tasks starts quickly."""

import gc
import sys
from functools import cache


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
