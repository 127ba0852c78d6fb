"""The check service: one thread takes checks from Kafka, an asyncio loop asks endpoints, one thread writes the answers.

Every check is asked at least once: an offset of ``cb.check`` is committed only when all checks before it have been
answered, or with a note of which wait. Asking twice is harmless, it counts one answer. While Kafka is away the service
waits for it.
"""

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import TypeVar

import aiohttp
from prometheus_client import CollectorRegistry

from access import Role, Whom, rights_of
from checkback.exceptions import CheckbackError, CheckServiceError, ConfigurationError
from checkback.kafka.kafka_python.errors import passes
from checkback.kafka.kafka_python.library import (
    AuthorizationError,
    IllegalSaslStateError,
    KafkaConfigurationError,
    KafkaError,
    OffsetMetadataTooLargeError,
    SaslAuthenticationFailedError,
    UnsupportedSaslMechanismError,
)
from checkback.kafka.outages import Outage
from checkback.kafka.reaching import no_kafka
from checkback.wire.groups import metadata_refused
from checkback.wire.ledger import Ledger
from checkback.wire.rights import not_allowed
from checkers.announcers import Announcers
from checkers.answers import Answer, AnswerWriter
from checkers.ask import Asker, EndpointVerdict
from checkers.behind import Route
from checkers.check import Check, CheckEnds
from checkers.clients import KafkaClients, connect_reader
from checkers.copies import Copies
from checkers.directory import directory_of
from checkers.facts import GroupStanding
from checkers.groups import Groups
from checkers.http.admission import AllowList
from checkers.http.names import Names
from checkers.http.session import open_session, tls_context
from checkers.http.shares import GroupShares
from checkers.intake import Announcements, Intake
from checkers.metrics import CheckMetrics
from checkers.rereading import CheckOrigin, Rereader, Rooms
from checkers.settling import Lanes
from conf import Settings, TransactionSettings
from conf.secrets_file import own_key

_LOGGER = logging.getLogger(__name__)
_STOP_SECONDS = 10.0
_STANDING_SECONDS = 1.0
_EARLY_MS = 5_000
"""A check is in Kafka at most this much after the batch that asks for it, and its answer takes a moment. So near to the
time at which the job asks again it is left to that."""
_LATE_MS = 60_000
"""So much later than its pause says, at most, the job asks again: batches take a while, and many checks are due."""
T = TypeVar("T")
_CREDENTIALS = (SaslAuthenticationFailedError, UnsupportedSaslMechanismError, IllegalSaslStateError)


class CheckService:
    """Answers checks until stopped. Several may run: they share ``cb.check`` as one consumer group.

    ``clock_ms`` is any clock that does not run backwards; ``connect`` opens the Kafka clients; ``registry`` gets its
    metrics.

    Raises:
        ConfigurationError: the TLS files, the key, or the access policy in the settings cannot be used.
    """

    def __init__(
        self,
        settings: Settings,
        clock_ms: Callable[[], int] = lambda: time.monotonic_ns() // 1_000_000,
        connect: Callable[[Settings], KafkaClients] = KafkaClients,
        registry: CollectorRegistry | None = None,
    ) -> None:
        self._settings = settings
        self._clock_ms = clock_ms
        self._connect = connect
        self._metrics = CheckMetrics(registry or CollectorRegistry(), self.standing)
        self._tls = tls_context(settings.checks)
        # The directory and the groups belong to the loop's thread.
        self._directory = directory_of(settings.checks)
        self._announcers = Announcers(settings)
        self._groups: Groups  # made on the loop, by _open
        self._clients: KafkaClients  # made before the first check is taken
        self._postponed: Callable[[CheckOrigin, str], None]  # the intake's
        self._finished: Callable[[CheckOrigin], None]  # likewise
        self._copies: Copies  # made on the loop
        self._writer = AnswerWriter(settings.kafka.topics, clock_ms, own_key(settings.access))
        self._stopping = threading.Event()
        self._asking = threading.Event()
        self._hearing = threading.Event()
        """Set when all announcements that were there have been heard."""
        self._leave_seconds = _STOP_SECONDS
        self._failure: CheckbackError | None = None
        self._loop: asyncio.AbstractEventLoop  # made by start: a service that never starts holds nothing
        self._threads = [
            threading.Thread(target=self._record_failure, args=(work,), name=f"checks-{name}", daemon=True)
            for name, work in (("http", self._ask), ("kafka", self._serve))
        ]

    def start(self) -> None:
        """Start the threads; returns at once."""
        self._loop = asyncio.new_event_loop()
        for thread in self._threads:
            thread.start()

    def raise_if_dead(self) -> None:
        """Raise what ended the service, if anything did.

        Raises:
            KafkaUnreachableError: no Kafka answered at the start. Later the service waits for it.
            ConfigurationError: Kafka does not take its credentials or options, or does not allow what it needs.
            CheckServiceError: anything else; a restart continues where it stopped.
        """
        if self._failure is not None:
            raise self._failure

    def standing(self) -> dict[str, GroupStanding]:
        """How producer groups stand; empty while the service starts, or is too busy to say within a second."""
        return self._standing_now() or {}

    def known_standing(self) -> dict[str, GroupStanding] | None:
        """Likewise; None as long as it is not known which endpoints there are, and when it cannot be said."""
        return self._standing_now() if self._hearing.is_set() else None

    def _standing_now(self) -> dict[str, GroupStanding] | None:
        if not self._asking.is_set() or self._stopping.is_set():
            return None
        try:
            return self._on_loop(self._groups.standing).result(_STANDING_SECONDS)
        except (TimeoutError, RuntimeError):  # the loop has just been closed
            return None

    def stop(self, seconds: float = _STOP_SECONDS) -> None:
        """Stop; checks under way are asked again by whoever comes next."""
        self._leave_seconds = 0.8 * seconds
        self._stopping.set()
        asking, serving = self._threads
        serving.join(seconds)
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._loop.stop)
        asking.join(seconds)

    def _record_failure(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:  # noqa: BLE001  (whatever ends it is told)
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        failure = explained(error, self._settings)
        failure.__cause__ = error
        self._failure = self._failure or failure
        _LOGGER.debug("The check service ended", exc_info=error)

    def _ask(self) -> None:
        asyncio.set_event_loop(self._loop)
        session = self._loop.run_until_complete(self._open())
        self._asking.set()
        self._loop.run_forever()
        pending = asyncio.all_tasks(self._loop)
        for task in pending:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*pending, return_exceptions=True))
        self._loop.run_until_complete(session.close())
        self._copies.close()
        self._loop.close()

    async def _open(self) -> aiohttp.ClientSession:
        checks = self._settings.checks
        allowed = AllowList(checks.allowed_hosts)
        shares = GroupShares()
        session = open_session(checks, allowed, self._tls, idle=shares.connections.total)
        keys = {group: key.get_secret_value().encode() for group, key in checks.keys.items()}
        lanes = Lanes(self._settle, self._clock_ms, self._metrics.settled, self._metrics.contradicted)
        self._copies = Copies(
            *(self._settings.kafka.topics.half, self._announcers.has_keys, partial(connect_reader, self._settings)),
            lanes.settle,
            found=self._metrics.copied,
            failed=self._fail,
        )
        self._groups = Groups(
            self._directory,
            Asker(session, allowed, keys, names=Names(checks.ask_timeout / 1000)),
            CheckEnds(self._answer, self._postpone, self._keep, self._drop, self._metrics.asked, self._copies.settle),
            self._clock_ms,
            concurrency=checks.concurrency_per_group,
            queue=checks.queue_per_group,
            shares=shares,
        )
        return session

    def _settle(self, group: str, lane: str) -> Ledger | None:
        return self._clients.settler().settle(group, lane)

    def _serve(self) -> None:
        while not self._asking.wait(0.1):  # the loop has not opened its session yet
            if self._failure is not None:
                return
        clients = self._clients = self._connect(self._settings)
        try:
            outage = Outage("reading checks", self._clock_ms)
            good_for = good_for_ms(self._settings.transactions)
            rereader = Rereader(clients.again, self._rooms, self._hand_over, self._clock_ms, *good_for)
            intake = Intake(clients.checks, clients.registry, self._hand_over, self._hear, outage, rereader)
            self._postponed, self._finished = intake.postponed, intake.finished
            write = partial(self._writer.run, clients.answers, intake.finished, intake.postponed)
            writing = threading.Thread(target=self._record_failure, args=(write,), name="checks-answers", daemon=True)
            writing.start()
            try:
                intake.know_endpoints(self._stopping)
                self._on_loop(self._hearing.set)  # behind what was heard
                intake.run(self._stopping, lambda: self._writer.unwritten)
            finally:
                self._finish(intake, clients, writing)
        finally:
            clients.close(0.4 * self._leave_seconds)

    def _finish(self, intake: Intake, clients: KafkaClients, writing: threading.Thread) -> None:
        """Commit what has been answered, if Kafka lets us; what fails is asked again, and the group is left in time."""
        self._writer.close()
        writing.join(0.1 * self._leave_seconds)
        try:
            clients.answers.flush(0.3 * self._leave_seconds)
            intake.commit()
        except Exception as error:  # noqa: BLE001  (whatever it is, the clients have to be closed)
            _LOGGER.warning("The check service is closing; some answered checks will be asked again: %r", error)

    def _hand_over(self, checks: list[Check]) -> "Future[None]":
        return self._on_loop(lambda: self._groups.take(checks))

    def _rooms(self, routes: list[Route]) -> "Future[Rooms]":
        routes = [] if self._writer.full else routes
        return self._on_loop(lambda: {route: self._groups.room(*route) for route in routes})

    def _on_loop(self, act: Callable[[], T]) -> "Future[T]":
        done: Future[T] = Future()

        def do() -> None:
            try:
                done.set_result(act())
            except Exception as error:  # noqa: BLE001  (the intake's thread raises it)
                done.set_exception(error)

        self._loop.call_soon_threadsafe(do)
        return done

    def _hear(self, announcements: Announcements) -> "Future[None]":
        belief = self._announcers.belief
        judged = [(record.key, record.value, age_ms, belief(record)) for record, age_ms in announcements]

        def hear() -> None:
            now_ms = self._clock_ms()
            for key, value, age_ms, believed in judged:
                self._directory.hear(key, value, now_ms - age_ms, believed)

        return self._on_loop(hear)

    def _postpone(self, check: Check, reason: str) -> None:
        self._metrics.postponed(check.request.group)
        self._postponed(check.origin, reason)

    def _keep(self, check: Check, verdict: EndpointVerdict) -> None:
        """Answer once that nobody could be asked; the check stays where it is."""
        check.origin = check.origin._replace(kept=True)
        if check.answered:
            self._finished(check.origin)
        else:
            self._answer(check, verdict)

    def _drop(self, check: Check) -> None:
        self._finished(check.origin)

    def _answer(self, check: Check, verdict: EndpointVerdict) -> None:
        request = check.request
        self._metrics.answered(request.group, verdict.action.value)
        said = (request.transaction_id, request.group, request.half, verdict.action, verdict.remark)
        self._writer.put(Answer(*said, check.origin, verdict.fact))


def good_for_ms(times: TransactionSettings) -> tuple[int, int]:
    """For how long a check that was not answered is to be asked, and one that was answered *unreachable*."""
    ttl_ms = times.check_answer_ttl
    pause_ms = max(times.unreachable_backoff_max, times.check_interval)
    return max(ttl_ms - _EARLY_MS, ttl_ms // 2), pause_ms + _LATE_MS


def explained(error: BaseException, settings: Settings) -> CheckbackError:  # noqa: PLR0911  (one for each kind of error)
    """What to tell people of what ended the check service; ``retriable`` says whether to start it again."""
    if isinstance(error, CheckbackError):
        return error
    servers = settings.kafka.bootstrap_servers
    if isinstance(error, KafkaConfigurationError):
        return ConfigurationError(f"The check service cannot use kafka.security or kafka.client_options: {error}.")
    if isinstance(error, _CREDENTIALS):
        return ConfigurationError(
            f"Kafka at {servers} refuses the check service's credentials: correct kafka.security or "
            f"kafka.client_options. ({error!r})"
        )
    if isinstance(error, AuthorizationError):
        return not_allowed("the check service", error, rights_of(Role.CHECKS, Whom(settings.kafka.topics)))
    if isinstance(error, OffsetMetadataTooLargeError):
        return metadata_refused("the check service", repr(error))
    if isinstance(error, KafkaError | ConnectionError | TimeoutError) and passes(error):
        return no_kafka(servers, repr(error), "kafka.bootstrap_servers")
    return CheckServiceError(f"The check service failed; a restart continues where it stopped. {error!r}")
