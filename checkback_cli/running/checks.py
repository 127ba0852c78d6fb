"""``checkback checks``."""

import logging

from checkback.signals import stop_on_signals
from checkback_cli.terminal.options import BootstrapServer, ConfigFile
from conf import load
from conf.log_lines import log_to_stdout

_LOGGER = logging.getLogger(__name__)


def run_checks(config: ConfigFile = None, bootstrap_server: BootstrapServer = None) -> None:
    """Run a check service alone, until Ctrl-C or SIGTERM; the job then needs checks.in_job = false.

    Run as many as you like: they share the checks, and take over from one another. While Kafka is away they wait.
    """
    from prometheus_client import CollectorRegistry

    from checkers import CheckService
    from checkers.metrics import serve

    settings = load(config, bootstrap_server)
    log_to_stdout(settings.log)
    stopping = stop_on_signals()
    registry = CollectorRegistry()
    service = CheckService(settings, registry=registry)
    service.start()
    stop_serving = serve(registry, settings.checks.http_host, settings.checks.http_port)
    _LOGGER.info("Answering checks for %s. Ctrl-C stops it.", settings.kafka.bootstrap_servers)
    try:
        while not stopping.wait(1):
            service.raise_if_dead()
    finally:
        service.stop()
        stop_serving()
