"""The check endpoint: a server of its own for checks, and the announcement that tells the check service of it."""

import logging
import os
import socket
import threading
import time
import uuid
import weakref
from collections.abc import Mapping, Sequence
from functools import partial
from http.client import HTTPConnection, HTTPSConnection
from types import TracebackType
from typing import Any, Literal, Self
from urllib.parse import urlsplit

from checkback.answering.advertising import announced_url, foreign_answer, refuse_unreachable
from checkback.answering.app import Keys, check_app
from checkback.answering.http_connections import BoundedConnection
from checkback.answering.http_server import BoundedServer
from checkback.answering.listening import listening_socket
from checkback.exceptions import CheckbackError, ConfigurationError
from checkback.forking import in_child_of, refuse_in_child
from checkback.greenlets import greenlet_library
from checkback.kafka.kafka_python import make_client
from checkback.kafka.kafka_python.library import AuthorizationError, KafkaError, KafkaProducer
from checkback.kafka.kafka_python.repairs import close_producer
from checkback.kafka.signing import signed
from checkback.kafka.transport import OutgoingRecord
from checkback.listener import TransactionChecker
from checkback.wire.checks import MAX_ANNOUNCEMENT_BYTES, MAX_BATCH, Announcement, announcement_key
from checkback.wire.protocol import Topics, lawful_group
from checkback.wire.rights import not_allowed, write
from checkback.wire.signed_records import SigningKey

_LOGGER = logging.getLogger(__name__)
_HEARTBEAT_SECONDS = 10.0
_START_SECONDS = 10.0
_CLOSE_SECONDS = 5.0
_PROBE_SECONDS = 3.0
_PARTITION = 0  # the only one
_FIXED: Mapping[str, tuple[object, ...]] = {
    "acks": ("all", -1),
    "enable_idempotence": (False,),
    **dict.fromkeys(("key_serializer", "value_serializer"), (None,)),
    **dict.fromkeys(("bootstrap_servers", "transactional_id"), ()),
}
"""Of the client's options: what an announcement rests on."""
_LISTENING = weakref.WeakSet[socket.socket]()


def _close_in_child() -> None:
    """Who connected to a port that only a forked child still has open would never be answered."""
    for listening in list(_LISTENING):
        listening.close()


os.register_at_fork(after_in_child=_close_in_child)


class EndpointAnnouncer:
    """Tells the check service where a producer group answers: a record and heartbeats in ``cb.producers``.

    After 10 s it probes ``url`` once, and logs a warning if something else than a check endpoint answers there.
    ``batch`` is how many checks it takes in one request: give 1 for an endpoint of your own that only answers single
    ones. ``answers_for`` are the real topics it is asked about; without it all. ``signing`` is the key of the group's
    account, where an access policy wants one (``docs/access-policy.md``).

    Raises:
        ConfigurationError: nobody can ask at ``url`` (0.0.0.0, say), the topic ``cb.producers`` is missing, or
            ``answers_for`` is longer than an announcement may be.
        KafkaUnreachableError: no Kafka answers.
    """

    def __init__(  # noqa: PLR0913  (keyword options, most of them left at their defaults)
        self,
        bootstrap_servers: str,
        group: str,
        url: str,
        *,
        batch: int = MAX_BATCH,
        answers_for: Sequence[str] | None = None,
        topics: Topics | None = None,
        kafka_options: Mapping[str, Any] | None = None,
        signing: SigningKey | None = None,
    ) -> None:
        refuse_unreachable(url)
        self._signing = signing
        self._group = group
        self._instance = uuid.uuid4().hex
        self._url = url
        self._batch = batch
        self._answers_for = None if answers_for is None else tuple(answers_for)
        size = sum(map(len, self._record()))
        if size > MAX_ANNOUNCEMENT_BYTES:
            raise ConfigurationError(
                f"The announcement of group {group} has {size:,} bytes, {MAX_ANNOUNCEMENT_BYTES:,} at most are read: "
                "name fewer topics in answers_for, or leave it out, which means all."
            )
        self._topic = (topics or Topics()).producers
        settings: dict[str, Any] = {
            "bootstrap_servers": bootstrap_servers,
            "acks": "all",
            # twice is no harm: an idempotent one ends with an outage that is longer than a record may wait
            "enable_idempotence": False,
            "max_block_ms": int(_START_SECONDS * 1000),
        }
        self._kafka = make_client(KafkaProducer, settings, kafka_options, _FIXED, whose="a check endpoint")
        self._closing, self._process = threading.Event(), os.getpid()
        try:
            self._say(*self._record()).get(timeout=_START_SECONDS)
        except KafkaError as error:
            close_producer(self._kafka, 1)
            if isinstance(error, AuthorizationError):
                raise not_allowed("the check endpoint", error, [write(self._topic, "")]) from error
            raise ConfigurationError(
                f"Kafka has no topic {self._topic}: run 'checkback topics create' first. ({error!r})"
            ) from error
        self._thread = threading.Thread(target=self._beat, name="checkback-heartbeat", daemon=True)
        self._thread.start()
        self._probing = threading.Timer(_HEARTBEAT_SECONDS, self._probe)  # the application may not serve yet
        self._probing.daemon = True
        self._probing.start()

    def close(self) -> None:
        """Take the announcement back. While Kafka is away that is left out: it lapses by itself after a minute.

        In a forked child it is the parent's, and stays.
        """
        if self._closing.is_set() or in_child_of(self._process):
            return
        self._closing.set()
        self._probing.cancel()
        self._thread.join()
        try:
            self._say(announcement_key(self._group, self._instance), None).get(_CLOSE_SECONDS)
        except KafkaError as error:
            _LOGGER.warning("The endpoint of group %s could not be taken back, and lapses: %r", self._group, error)
        close_producer(self._kafka, 0)

    def _record(self) -> tuple[bytes, bytes]:
        now_ms = int(time.time() * 1000)
        return Announcement(self._group, self._instance, self._url, now_ms, self._batch, self._answers_for).to_record()

    def _say(self, key: bytes, value: bytes | None) -> Any:
        record = OutgoingRecord(self._topic, _PARTITION, key, value, [])
        if self._signing is not None:
            record = signed(record, self._signing)
        return self._kafka.send(record.topic, value, key, headers=list(record.headers), partition=record.partition)

    def _probe(self) -> None:
        """Warn if something else than a check endpoint answers at the announced URL."""
        parts = urlsplit(self._url)
        url = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
        connecting = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        try:
            answer = foreign_answer(connecting(parts.hostname or "", parts.port, timeout=_PROBE_SECONDS), self._url)
        except (OSError, ValueError) as error:  # perhaps only the job's machine reaches it
            _LOGGER.info("%s is announced, and this process cannot reach it: %s", url, error)
            return
        if answer:
            todo = "Announce the endpoint's own URL, with its final slash, and exempt it from logins and redirects."
            _LOGGER.warning("No check endpoint answers at %s: %s. %s", url, answer, todo)

    def _beat(self) -> None:
        while not self._closing.wait(_HEARTBEAT_SECONDS):
            try:
                self._say(*self._record())
            except KafkaError as error:
                _LOGGER.warning("A heartbeat of group %s did not reach Kafka: %r", self._group, error)


class CheckEndpoint:
    """Serves :func:`check_app` on a port of its own and announces it; use it as a context manager.

    For applications without a web server. ``port`` 0 takes a free one; ``host`` is the address to listen at. That is
    the one announced, unless the job's machine reaches this process at another one: a host, ``host:port`` or URL in
    ``advertised``, which ``host="0.0.0.0"`` and ``"::"`` need. With ``key`` only requests signed with it are answered:
    ``checks.keys`` of the check service has the same; while that is changed, give both. ``batch``, ``answers_for`` and
    ``signing`` are as in :class:`EndpointAnnouncer`.

    Raises:
        ConfigurationError: the key is empty, or nobody could ask at the address that would be announced.
        ProtocolError: this cannot be a producer group.
        OSError: the address cannot be listened at.
    """

    def __init__(  # noqa: PLR0913  (keyword options, most of them left at their defaults)
        self,
        bootstrap_servers: str,
        group: str,
        listener: TransactionChecker,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        advertised: str | None = None,
        key: Keys = None,
        batch: int = MAX_BATCH,
        answers_for: Sequence[str] | None = None,
        topics: Topics | None = None,
        kafka_options: Mapping[str, Any] | None = None,
        signing: SigningKey | None = None,
    ) -> None:
        lawful_group(group)
        options = {"topics": topics, "kafka_options": kafka_options, "signing": signing}
        announcing = partial(EndpointAnnouncer, bootstrap_servers, group, batch=batch, answers_for=answers_for)
        self._announcing: partial[EndpointAnnouncer] = partial(announcing, **options)
        app = check_app(listener, group, key=key)
        announced_url(host, port or 1, advertised)  # before anything is opened: the free port is not known yet
        self._socket, self._process = listening_socket(host, port), os.getpid()
        _LISTENING.add(self._socket)
        bound_host, bound_port = self._socket.getsockname()[:2]
        self._url = announced_url(bound_host, bound_port, advertised)
        loop: Literal["asyncio", "auto"] = "asyncio" if greenlet_library() else "auto"  # uvloop blocks all greenlets
        self._server = BoundedServer(app, BoundedConnection, log_level="warning", loop=loop)
        self._thread = threading.Thread(
            target=self._server.run, args=([self._socket],), name="checkback-endpoint", daemon=True
        )
        self._announcer: EndpointAnnouncer | None = None

    @property
    def url(self) -> str:
        """Where the endpoint answers, as it is announced."""
        return self._url

    def start(self) -> Self:
        """Serve, then announce."""
        refuse_in_child(self._process, "CheckEndpoint")
        self._thread.start()
        deadline = time.monotonic() + _START_SECONDS
        while not self._server.started:
            if time.monotonic() > deadline or not self._thread.is_alive():
                raise CheckbackError("The check endpoint's server did not start.")
            time.sleep(0.01)
        try:
            self._announcer = self._announcing(self.url)
        except BaseException:
            self.close()
            raise
        return self

    def close(self) -> None:
        """Take the announcement back and stop serving. Harmless before :meth:`start`, again, and in a forked child."""
        if in_child_of(self._process):
            return
        if self._announcer is not None:
            self._announcer.close()
        self._server.should_exit = True
        if self._thread.ident is not None:  # it was started
            self._thread.join(timeout=10)
        self._socket.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()
