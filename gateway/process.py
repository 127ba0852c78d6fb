"""One process of a gateway: connects to Kafka, listens, announces, and ends without losing what it has taken."""

import asyncio
import logging
import resource
import uuid
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Self

from prometheus_client import CollectorRegistry
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.types import ASGIApp

from checkback.answering.advertising import announced_url
from checkback.answering.http_connections import BoundedConnection
from checkback.answering.http_server import BoundedServer
from checkback.answering.listening import listening_socket
from checkback.exceptions import ConfigurationError
from checkback.kafka.client_options import of_reaching
from checkback.kafka.send_limits import SendLimits, read_notices
from checkback.kafka.signing import signed
from checkback.kafka.topic_reading import reading_consumer
from checkback.kafka.transport import OutgoingRecord
from checkback.wire.protocol import HalfPosition
from conf import Settings
from gateway.accounts import ANYBODY, Accounts
from gateway.asking import Asking
from gateway.checking import Checking, Twins
from gateway.http.api import HttpApi
from gateway.http.inner import PATH, checks_app, inner_routes
from gateway.http.polls import Polls
from gateway.kafka.announcing import GroupAnnouncements, ProducersTopic
from gateway.kafka.bodies import HalfBodies
from gateway.kafka.places import KafkaPlaces
from gateway.kafka.twin_halves import TwinHalves
from gateway.kafka.writing import RecordWriter
from gateway.metrics import GatewayMetrics
from gateway.rocketmq.server import started
from gateway.rocketmq.service import MessagingService
from gateway.rocketmq.streams import ClientStreams
from gateway.tickets import TicketSeal
from gateway.transactions import GatewayTransactions

_LOGGER = logging.getLogger(__name__)
_DRAIN_SECONDS = 5.0
_TRIED_LONGER = 5
"""So many times as long as its client waits, a record is tried: repeated meanwhile, it is the same one."""
_STOP_SECONDS = 3


class GatewayProcess:
    """To be entered on the loop that is to serve; ``number`` counts the processes of one gateway from 0.

    Entering it:  1. connects to Kafka.  2. Opens the port for checks.  3. Opens those for clients.  4. Announces.
    Leaving it:  1. is no longer ready.  2. Takes its announcements back, and ends streams.  3. Answers what is under
    way.  4. Waits until Kafka has what was written.

    Raises:
        ConfigurationError: the settings contradict one another, or Kafka lacks a topic of ours.
        KafkaUnreachableError: no Kafka answers.
        OSError: a port cannot be had.
    """

    def __init__(self, settings: Settings, number: int = 0, *, shared: bool = False) -> None:
        self._settings, self._number, self._shared = settings, number, shared
        self._open = AsyncExitStack()
        self.ready = False
        self.port = self.tls_port = self.http_port = self.check_port = 0

    async def __aenter__(self) -> Self:
        try:
            await self._start()
        except BaseException:
            await self._open.aclose()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        self.ready = False
        await self._open.aclose()

    def said(self) -> str:
        """Where it can be reached, for people."""
        settings = self._settings.gateway
        ports = (("gRPC", self.port), ("gRPC with TLS", self.tls_port), ("HTTP", self.http_port))
        open_ones = ", ".join(f"{name} {port}" for name, port in ports if port)
        who = "by account" if self._settings.access.policy else "by anybody on this machine"
        return f"Gateway at {settings.host} ({open_ones}), used {who}; checks and metrics at port {self.check_port}."

    async def _start(self) -> None:
        settings, own = self._settings.gateway, self._settings.kafka.topics
        asking, accounts = Asking(), Accounts(self._settings.access, own)
        writer, places = self._connect()
        seal = TicketSeal([one.get_secret_value() for one in settings.secrets])
        transactions = GatewayTransactions(own, writer.write, places, accounts, asking, seal)
        kafka = self._settings.kafka
        transactions.limits = SendLimits(partial(read_notices, kafka.bootstrap_servers, kafka.python_client), own)
        transactions.patience_seconds = settings.write_timeout / 1_000
        transactions.most_delay_ms = self._settings.transactions.delay_max
        registry = CollectorRegistry()
        metrics = GatewayMetrics(registry, asking.clients, lambda: len(asking.groups()))
        streams = ClientStreams(asking, accounts.may_act)
        most_http = (_TlsConnection if settings.tls_certificate else _GatewayConnection).most
        polls = Polls(asking, accounts.may_act, most=most_http)
        url = self._open_checks(asking, metrics, registry)
        most, producers = int(settings.max_body), self._producers(writer, accounts)
        common = (transactions, accounts, seal.of_check, most)
        await self._open_clients(MessagingService(*common, places, streams, settings.groups), streams, metrics)
        repeat = max(1, self._settings.checks.endpoint_ttl // 2_000)  # ms, and half of it: one may be late
        api = HttpApi(*common, polls, producers, repeat, lambda: self.ready, metrics.called)
        self._open_http(api, polls)
        self._announce(GroupAnnouncements(producers, url, uuid.uuid4().hex, asking), streams, polls)
        self.ready = True

    def _producers(self, writer: RecordWriter, accounts: Accounts) -> ProducersTopic:
        return ProducersTopic(self._settings.kafka.topics.producers, writer.write, partial(_signed, accounts))

    def _announce(self, announcing: GroupAnnouncements, streams: ClientStreams, polls: Polls) -> None:
        def judge_again() -> None:
            streams.judge_again()
            polls.judge_again()

        beating = asyncio.ensure_future(announcing.run(judge_again))
        self._open.push_async_callback(announcing.take_back)
        self._open.callback(beating.cancel)

    def _connect(self) -> tuple[RecordWriter, KafkaPlaces]:
        kafka, timeout_ms = self._settings.kafka, self._settings.gateway.write_timeout
        options = kafka.sink_client
        writer = RecordWriter(kafka.bootstrap_servers, _TRIED_LONGER * timeout_ms, options)
        self._open.callback(writer.close, _DRAIN_SECONDS)
        asking = {"log_level": 2, **of_reaching(options), "bootstrap.servers": kafka.bootstrap_servers}
        return writer, KafkaPlaces(partial(writer.partitions, kafka.topics.half), asking)

    def _open_checks(self, asking: Asking, metrics: GatewayMetrics, registry: CollectorRegistry) -> str:
        """The port at which check services ask; gives what is announced, without the group's name."""
        settings, kafka = self._settings.gateway, self._settings.kafka
        reading = partial(reading_consumer, kafka.bootstrap_servers, options=kafka.python_client)
        bodies, twins = HalfBodies(kafka.topics.half, reading), TwinHalves(kafka.topics, reading)
        self._open.callback(bodies.close)
        self._open.callback(twins.close)
        # by a policy it is for the job to say which ops count, and nobody here judges their signatures
        find = _alone if self._settings.access.policy else twins.find
        checking = Checking(asking, bodies.whole, find, metrics.asked)
        keys = {group: [key.get_secret_value().encode()] for group, key in self._settings.checks.keys.items()}
        checks = checks_app(checking.answer, lambda group: keys.get(group, []))
        app = Starlette(
            routes=[*inner_routes(registry, lambda: self.ready, self._settings.http.names), Mount("/", checks)]
        )
        port = settings.check_port + self._number if settings.check_port else 0
        server = HttpServer(app, settings.check_host, port)
        self.check_port = server.port
        server.start()
        self._open.push_async_callback(server.stop)
        return announced_url(server.host, server.port, settings.advertised or None).rstrip("/") + PATH

    async def _open_clients(self, service: MessagingService, streams: ClientStreams, metrics: GatewayMetrics) -> None:
        settings = self._settings.gateway
        certificate = _read(settings, "tls_certificate"), _read(settings, "tls_key")
        server, self.port, self.tls_port = await started(
            service,
            int(settings.max_body),
            settings.host,
            settings.port or None,
            settings.tls_port or None,
            certificate,
            connections=MOST_CONNECTIONS,
            called=metrics.called,
            shared=self._shared,
        )
        self._open.push_async_callback(server.stop, _DRAIN_SECONDS)
        self._open.callback(streams.end_all)

    def _open_http(self, api: HttpApi, polls: Polls) -> None:
        settings = self._settings.gateway
        if not settings.http_port:
            return
        tls = (settings.tls_certificate, settings.tls_key) if settings.tls_certificate else None
        server = HttpServer(api.app(), settings.host, settings.http_port, tls, shared=self._shared)
        self.http_port = server.port
        server.start()
        self._open.push_async_callback(server.stop)
        self._open.callback(polls.end_all)


def _signed(accounts: Accounts, group: str, record: OutgoingRecord) -> OutgoingRecord:
    signing = accounts.signing(ANYBODY, group)
    return record if signing is None else signed(record, signing)


async def _alone(half: HalfPosition, *_: object) -> Twins:
    return Twins((half,))


def _read(settings: object, name: str) -> bytes:
    path = getattr(settings, name)
    if not path:
        return b""
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise ConfigurationError(f"gateway.{name}: cannot read {path}: {error.strerror}.") from None


def refuse_strangers(settings: Settings) -> None:
    """Raises ConfigurationError where clients from elsewhere would not have to say who they are."""
    host = settings.gateway.host
    if not settings.access.policy and host not in {"127.0.0.1", "::1", "localhost"}:
        raise ConfigurationError(
            f"gateway.host is {host}, and there is no access.policy: anybody who reaches it could send as any group. "
            "Name a policy with accounts, or listen at 127.0.0.1."
        )


class _GatewayConnection(BoundedConnection):
    most = of_address = min(max(resource.getrlimit(resource.RLIMIT_NOFILE)[0], 1_024) // 5, 3_000)


MOST_CONNECTIONS = _GatewayConnection.most
"""Of each of four ports: a process without files could not answer its probes. One address may be a proxy's."""


class _TlsConnection(_GatewayConnection):
    most = of_address = min(_GatewayConnection.most, 900)
    """uvloop takes 0.4 MiB for each: 2,900 took 1.1 GiB."""


class HttpServer:
    """Serves until :meth:`stop`. ``shared``: other processes listen at the same port.

    Raises:
        OSError: the address cannot be listened at, or the certificate is none.
    """

    def __init__(
        self, app: ASGIApp, host: str, port: int, tls: tuple[str, str] | None = None, *, shared: bool = False
    ) -> None:
        self._socket = listening_socket(host, port, shared=shared)
        self.host, self.port = self._socket.getsockname()[:2]
        certificate, key = tls or (None, None)
        self._server = BoundedServer(
            app,
            _TlsConnection if tls else _GatewayConnection,
            log_level="warning",
            ssl_certfile=certificate,
            ssl_keyfile=key,
            timeout_graceful_shutdown=_STOP_SECONDS,
        )
        self._serving: asyncio.Task[None] | None = None

    def start(self) -> None:
        """From now on."""
        self._serving = asyncio.ensure_future(self._server.serve([self._socket]))

    async def stop(self) -> None:
        """Answer what is under way, for at most three seconds, and end."""
        self._server.should_exit = True
        if self._serving is not None:
            await self._serving
        self._socket.close()
