"""The check endpoint: where the job asks a producer group what became of a transaction."""

import json
import logging
import socket
import threading
import time
import uuid
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

import uvicorn
from kafka import KafkaProducer
from kafka.errors import KafkaError
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from checkback.check_protocol import Announcement, CheckRequest, announcement_key
from checkback.exceptions import CheckbackError, ConfigurationError, ProtocolError
from checkback.listener import LocalTransactionState, TransactionChecker
from checkback.protocol import Topics

_LOGGER = logging.getLogger(__name__)
_HEARTBEAT_SECONDS = 10.0
_START_SECONDS = 10.0


def check_app(listener: TransactionChecker, group: str) -> Starlette:
    """An ASGI application that answers checks of one producer group with POST on its root.

    Mount it in your own: ``app.mount("/checkback", check_app(listener, "orders"))``. The listener is called from
    a thread pool; what it raises is answered as *unknown*, with the exception in the remark.
    """

    async def answer(request: Request) -> Response:
        try:
            check = CheckRequest.from_json(json.loads(await request.body()))
        except (ProtocolError, ValueError, RecursionError) as error:
            return JSONResponse({"error": str(error)}, status_code=400)
        if check.group != group:
            return JSONResponse({"error": f"This endpoint answers for group {group}."}, status_code=404)
        state, remark = await run_in_threadpool(_checked, listener, check)
        return JSONResponse({"state": state.value, "remark": remark})

    return Starlette(routes=[Route("/", answer, methods=["POST"])])


def _checked(listener: TransactionChecker, check: CheckRequest) -> tuple[LocalTransactionState, str]:
    try:
        return LocalTransactionState(listener.check_local_transaction(check)), ""
    except Exception as error:  # whatever the application raises: the job will ask again
        _LOGGER.exception("The check of %s raised", check.transaction_id)
        return LocalTransactionState.UNKNOWN, f"check_local_transaction raised {error!r}"


class EndpointAnnouncer:
    """Tells the check service where a producer group answers: a record and heartbeats in ``cb.producers``."""

    def __init__(
        self,
        bootstrap_servers: str,
        group: str,
        url: str,
        *,
        topics: Topics | None = None,
        kafka_options: Mapping[str, Any] | None = None,
    ) -> None:
        self._group = group
        self._instance = uuid.uuid4().hex
        self._url = url
        self._topic = (topics or Topics()).producers
        settings = {"acks": "all", "allow_auto_create_topics": False, "max_block_ms": int(_START_SECONDS * 1000)}
        try:
            self._kafka = KafkaProducer(bootstrap_servers=bootstrap_servers, **{**settings, **(kafka_options or {})})
        except KafkaError as error:
            raise ConfigurationError(f"No Kafka answers at {bootstrap_servers}: {error!r}.") from error
        self._closing = threading.Event()
        try:
            self._announce().get(timeout=_START_SECONDS)
        except KafkaError as error:
            self._kafka.close(timeout=1)
            raise ConfigurationError(
                f"Kafka has no topic {self._topic}: run 'checkback topics create' first. ({error!r})"
            ) from error
        self._thread = threading.Thread(target=self._beat, name="checkback-heartbeat", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Take the announcement back."""
        if self._closing.is_set():
            return
        self._closing.set()
        self._thread.join()
        self._kafka.send(self._topic, None, announcement_key(self._group, self._instance))
        self._kafka.close(timeout=5)

    def _announce(self) -> Any:
        key, value = Announcement(self._group, self._instance, self._url, int(time.time() * 1000)).to_record()
        return self._kafka.send(self._topic, value, key)

    def _beat(self) -> None:
        while not self._closing.wait(_HEARTBEAT_SECONDS):
            try:
                self._announce()
            except KafkaError as error:
                _LOGGER.warning("A heartbeat of group %s did not reach Kafka: %r", self._group, error)


class CheckEndpoint:
    """Serves :func:`check_app` on a port of its own and announces it; use it as a context manager.

    For applications without a web server. ``port`` 0 takes a free one; ``host`` must be an address at which the
    job's machine reaches this process.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        group: str,
        listener: TransactionChecker,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        topics: Topics | None = None,
        kafka_options: Mapping[str, Any] | None = None,
    ) -> None:
        self._announce_to = (bootstrap_servers, group)
        self._announce_with = {"topics": topics, "kafka_options": kafka_options}
        self._socket = socket.create_server((host, port))
        config = uvicorn.Config(check_app(listener, group), log_level="warning", lifespan="off", access_log=False)
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(
            target=self._server.run, args=([self._socket],), name="checkback-endpoint", daemon=True
        )
        self._announcer: EndpointAnnouncer | None = None

    @property
    def url(self) -> str:
        """Where the endpoint answers."""
        host, port = self._socket.getsockname()[:2]
        return f"http://{host}:{port}/"

    def start(self) -> Self:
        """Serve, then announce."""
        self._thread.start()
        deadline = time.monotonic() + _START_SECONDS
        while not self._server.started:
            if time.monotonic() > deadline or not self._thread.is_alive():
                raise CheckbackError("The check endpoint's server did not start.")
            time.sleep(0.01)
        try:
            self._announcer = EndpointAnnouncer(*self._announce_to, self.url, **self._announce_with)  # type: ignore[arg-type] # mypy cannot see through the dict
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """Take the announcement back and stop serving."""
        if self._announcer is not None:
            self._announcer.close()
        self._server.should_exit = True
        self._thread.join(timeout=10)
        self._socket.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()
