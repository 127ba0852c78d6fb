"""The job of a fault run: ``checkback run`` with a hook that dies when told to. ``python -m torture.job FOLDER``."""

import os
import sys
import threading
import time
from pathlib import Path

from pyspark import SparkContext

from conf import load
from conf.log_lines import log_to_stdout
from streaming.running import run
from torture.death import DeathWatch, cancelling_ordered

_LOOK_SECONDS = 0.1


def _cancel_when_told_to(folder: Path) -> None:
    while True:
        context = SparkContext._active_spark_context  # noqa: SLF001  (the job does not hand its own out)
        if context is not None and cancelling_ordered(folder):
            context.cancelAllJobs()
        time.sleep(_LOOK_SECONDS)


if __name__ == "__main__":
    log_to_stdout()
    threading.Thread(target=_cancel_when_told_to, args=(Path(sys.argv[1]),), daemon=True).start()
    run(load(), DeathWatch(sys.argv[1], os.getpid()))
