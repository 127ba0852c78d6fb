"""The check service of a fault run with lanes: ``python -m torture.lanes.checks FOLDER``."""

import sys
from functools import partial
from pathlib import Path

from checkback.signals import stop_on_signals
from checkers import CheckService
from conf import load
from conf.log_lines import log_to_stdout
from torture.effects.strike import Watch
from torture.lanes.watched import WatchedClients

if __name__ == "__main__":
    settings = load()
    log_to_stdout(settings.log)
    stopping = stop_on_signals()
    service = CheckService(settings, connect=partial(WatchedClients, watch=Watch(Path(sys.argv[1]), "")))
    service.start()
    try:
        while not stopping.wait(1):
            service.raise_if_dead()
    finally:
        service.stop()
