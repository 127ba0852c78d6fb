"""The job of a fault run: ``checkback run`` with a witness that dies when told to. ``python -m torture.job FOLDER``."""

import os
import sys

from checkback.cli.run import run
from torture.death import DeathWatch

if __name__ == "__main__":
    run(None, DeathWatch(sys.argv[1], os.getpid()))
