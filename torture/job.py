"""The job of a fault run: ``checkback run`` with a hook that dies when told to.

``python -m torture.job FOLDER [--new-checkpoint]``. Exit status 75 when the same job may be started again, 1 when it
must not; the variable ``TORTURE_RENEW_SECONDS`` is how often it renews what Kafka would let expire.
"""

import os
import sys
import threading
import time
import traceback
from pathlib import Path

from pyspark import SparkContext

from checkback.exceptions import CheckbackError
from conf import load
from conf.log_lines import log_to_stdout
from streaming import sink
from streaming.running import run
from torture.death import DeathWatch, cancelling_ordered

RENEW = "TORTURE_RENEW_SECONDS"
NEW_CHECKPOINT = "--new-checkpoint"
TRY_AGAIN = 75
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
    if RENEW in os.environ:
        sink._DAY_SECONDS = float(os.environ[RENEW])  # noqa: SLF001  (nobody's setting but ours)
    try:
        run(load(), DeathWatch(sys.argv[1], os.getpid()), new_checkpoint=NEW_CHECKPOINT in sys.argv)
    except CheckbackError as error:
        traceback.print_exc()
        sys.exit(TRY_AGAIN if error.retriable else 1)
