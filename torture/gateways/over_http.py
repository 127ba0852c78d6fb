"""A client that knows HTTP and JSON, and nothing else."""

import http.client
import itertools
import json
import threading
import time
from collections import deque
from collections.abc import Sequence
from contextlib import closing
from typing import Any, NoReturn

from checkback import Message
from checkback.wire.message_json import from_base64, to_base64
from torture.effects.strike import Watch
from torture.gateways.orders import GROUP, NAME, OrderBooks
from torture.gateways.sending import End, GatewayProducer, NoAnswerError, RefusedError

_POST_SECONDS = 1.0
"""Less than a gateway waits for Kafka: so what it has not said yet is sent to the other one."""
_ANSWER_SECONDS = 2.0
_POLL_SECONDS = 5.0
_PAUSE_SECONDS = 0.5
_ABANDONED_SECONDS = 10.0
_OK, _MADE, _DONE, _REFUSED = 200, 201, 204, 400
_TO_TRY_AGAIN = 429
_FAILED = 500


class HttpProducer(GatewayProducer):
    """Posts with an Idempotency-Key."""

    def __init__(self, books: OrderBooks, watch: Watch, seed: int, ports: Sequence[int]) -> None:
        super().__init__(books, watch, seed)
        self._ports = ports
        self._turn = itertools.count()
        self._abandoned: deque[tuple[float, http.client.HTTPConnection]] = deque()

    def _post(self, gateway: int, name: str, messages: Sequence[Message]) -> str:
        said = [_json(message) for message in messages]
        body = {"message": said[0]} if len(said) == 1 else {"messages": said}
        path = f"/v1/groups/{GROUP}/transactions"
        status, answer = self._asked(gateway, path, body, {"Idempotency-Key": name})
        if status != _MADE:
            _refused(status, answer)
        return str(json.loads(answer)["transaction"])

    def _say(self, gateway: int, topic: str, ticket: str, end: End) -> None:
        del topic
        status, answer = self._asked(gateway, f"/v1/transactions/{ticket}/{end}", {}, {})
        if status not in {_DONE, _REFUSED}:
            _refused(status, answer)

    def _asked(self, gateway: int, path: str, body: object, headers: dict[str, str]) -> tuple[int, bytes]:
        while self._abandoned and time.monotonic() - self._abandoned[0][0] > _ABANDONED_SECONDS:
            self._abandoned.popleft()[1].close()
        connection = http.client.HTTPConnection("127.0.0.1", self._ports[gateway], timeout=_POST_SECONDS)
        try:
            found = _call(connection, "POST", path, body, headers)
        except NoAnswerError:
            if next(self._turn) % 2:
                connection.close()
            else:  # as a proxy between them may do: the gateway is not told that nobody waits any more
                self._abandoned.append((time.monotonic(), connection))
            raise
        connection.close()
        return found


class HttpAnswering(threading.Thread):
    """Polls one gateway for checks, and answers them there."""

    def __init__(self, books: OrderBooks, port: int) -> None:
        super().__init__(name=f"answering-{port}", daemon=True)
        self._books = books
        self._port = port

    def run(self) -> None:
        """Until the process ends."""
        while True:
            try:
                for check in self._poll():
                    self._answer(check)
            except NoAnswerError:
                time.sleep(_PAUSE_SECONDS)

    def _poll(self) -> Sequence[Any]:
        path = f"/v1/groups/{GROUP}/checks?wait={_POLL_SECONDS:g}&max=20"
        with closing(http.client.HTTPConnection("127.0.0.1", self._port, timeout=2 * _POLL_SECONDS)) as connection:
            status, answer = _call(connection, "GET", path, None, {})
        if status != _OK:
            _refused(status, answer)
        checks: Sequence[Any] = json.loads(answer)["checks"]
        return checks

    def _answer(self, check: Any) -> None:
        said = self._books.answer(_name(check["messages"][0]["headers"])).value
        with closing(http.client.HTTPConnection("127.0.0.1", self._port, timeout=_ANSWER_SECONDS)) as connection:
            status, answer = _call(connection, "POST", f"/v1/transactions/{check['transaction']}/{said}", {}, {})
        if status != _DONE:
            _refused(status, answer)


def _call(
    connection: http.client.HTTPConnection, method: str, path: str, body: object, headers: dict[str, str]
) -> tuple[int, bytes]:
    content = None if body is None else json.dumps(body)
    try:
        connection.request(method, path, content, {"content-type": "application/json", **headers})
        answer = connection.getresponse()
        return answer.status, answer.read()
    except (OSError, http.client.HTTPException) as error:
        raise NoAnswerError(f"port {connection.port}: {type(error).__name__}: {error}") from error


def _refused(status: int, answer: bytes) -> NoReturn:
    said = f"{status} {answer.decode(errors='replace')}"
    if status >= _FAILED or status == _TO_TRY_AGAIN:
        raise NoAnswerError(said)
    raise RefusedError(said)


def _json(message: Message) -> dict[str, Any]:
    headers = [{"name": name, "value_base64": to_base64(value)} for name, value in message.headers]
    value = {"value": None} if message.value is None else {"value_base64": to_base64(message.value)}
    key = {} if message.key is None else {"key_base64": to_base64(message.key)}
    return {"topic": message.topic, **key, **value, "headers": headers}


def _name(headers: Sequence[Any]) -> str:
    for header in headers:
        if header["name"] == NAME:
            return str(header["value"]) if "value" in header else (from_base64(header["value_base64"]) or b"").decode()
    return ""
