"""``checkback checks``."""

import logging

from rich.console import Console

from checkback.signals import stop_on_signals
from checkback_cli.options import ConfigFile
from checkers import CheckService
from conf import load


def run_checks(config: ConfigFile = None) -> None:
    """Run a check service alone, until Ctrl-C or SIGTERM; the job then needs checks.in_job = false.

    Run as many as you like: they share the checks, and take over from one another. While Kafka is away they wait.
    """
    settings = load(config)
    logging.getLogger("kafka").setLevel(logging.CRITICAL)  # each attempt to connect; we say once what is wrong
    console = Console(soft_wrap=True)
    stopping = stop_on_signals()
    service = CheckService(settings)
    service.start()
    console.print(f"Answering checks for {settings.kafka.bootstrap_servers}. Ctrl-C stops it.", highlight=False)
    try:
        while not stopping.wait(1):
            service.raise_if_dead()
    finally:
        service.stop()
