"""As many processes of a gateway as one likes, at the same ports: each on a core of its own."""

import asyncio
import gc
import logging
import multiprocessing
import secrets
import signal
import sys
import threading
from collections.abc import Callable
from multiprocessing.connection import wait
from multiprocessing.context import SpawnContext
from multiprocessing.process import BaseProcess
from multiprocessing.queues import SimpleQueue

import uvloop
from pydantic import SecretStr

from checkback.exceptions import ConfigurationError
from conf import Settings
from conf.log_lines import log_to_stdout
from gateway.process import GatewayProcess, refuse_strangers

_LOGGER = logging.getLogger(__name__)
Told = SimpleQueue[tuple[int, str]]
"""A process's number, and why it has ended; nothing: it serves."""
_STOP_SECONDS = 15.0
_PAUSE_SECONDS = 2.0
"""Before one that has ended by itself is started again."""


def run(settings: Settings, processes: int, stopping: threading.Event) -> None:
    """Run a gateway until ``stopping`` is set.

    Raises:
        ConfigurationError, KafkaUnreachableError, OSError: as :class:`~gateway.process.GatewayProcess`.
    """
    refuse_strangers(settings)
    settings = _with_secret(settings)
    if processes == 1:
        uvloop.run(_serve(settings, 0, stopping, shared=False))
        return
    _watch(settings, processes, stopping)


def _watch(settings: Settings, processes: int, stopping: threading.Event) -> None:
    context = multiprocessing.get_context("spawn")
    told: Told = context.SimpleQueue()
    running = [_started(context, settings, number, told) for number in range(processes)]
    served: set[int] = set()
    try:
        while not stopping.wait(0.2):
            for number, process in enumerate(running):
                if process.is_alive():
                    continue
                why = _heard(told, served)
                if why and not served:  # it would be the same with the next one
                    raise ConfigurationError(why)
                _LOGGER.warning(
                    "Process %d of the gateway has ended (%s), and is started again.", number, why or process.exitcode
                )
                stopping.wait(_PAUSE_SECONDS)
                running[number] = _started(context, settings, number, told)
    finally:
        for process in running:
            process.terminate()
        for process in running:
            process.join(_STOP_SECONDS)
            if process.is_alive():
                process.kill()


def _heard(told: Told, served: set[int]) -> str:
    """What processes have told: which have served, and why the last one ended that says so."""
    why = ""
    while not told.empty():
        number, error = told.get()
        if error:
            why = error
        else:
            served.add(number)
    return why


def _started(context: SpawnContext, settings: Settings, number: int, told: Told) -> BaseProcess:
    process = context.Process(target=_one, args=(settings, number, told), name=f"gateway-{number}", daemon=True)
    process.start()
    return process


def _one(settings: Settings, number: int, told: Told) -> None:
    """``told`` hears that it serves, and of what has ended it."""
    log_to_stdout(settings.log)
    stopping = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the one that watches says when
    threading.Thread(target=_end_with_parent, args=(stopping,), daemon=True).start()
    try:
        uvloop.run(_serve(settings, number, stopping, shared=True, serving=lambda: told.put((number, ""))))
    except (ConfigurationError, OSError) as error:
        told.put((number, str(error)))
        sys.exit(1)


def _end_with_parent(stopping: threading.Event) -> None:
    """Killed, it says nothing; and its children would go on at the ports, with settings of yesterday."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        stopping.set()


async def _serve(
    settings: Settings,
    number: int,
    stopping: threading.Event,
    *,
    shared: bool,
    serving: Callable[[], None] = lambda: None,
) -> None:
    async with GatewayProcess(settings, number, shared=shared) as process:
        serving()
        gc.freeze()  # what is there from the start, the garbage collector need not look through again and again
        _LOGGER.info("%s Ctrl-C stops it.", process.said())
        await asyncio.to_thread(stopping.wait)
        _LOGGER.info("Ending: what is under way is answered first.")


def _with_secret(settings: Settings) -> Settings:
    if settings.gateway.secrets:
        return settings
    _LOGGER.warning(
        "gateway.secrets is empty: transactions that are open when this gateway ends are then decided by checks, since "
        "their producers' ids are worth nothing to the next one. Give all gateways the same secret."
    )
    made = settings.gateway.model_copy(update={"secrets": [SecretStr(secrets.token_urlsafe(32))]})
    return settings.model_copy(update={"gateway": made})
