"""Real HTTP servers on free ports, which do what a test tells them."""

import socket
import socketserver
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import uvicorn

Respond = Callable[[bytes, bytes], bytes]


@dataclass
class Served:
    """A server: its port, and the requests it got (head and body)."""

    port: int
    requests: list[tuple[bytes, bytes]] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/"


def http(body: bytes, status: str = "200 OK", *headers: str) -> bytes:
    """A whole answer."""
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


@contextmanager
def serving(respond: bytes | Respond, tls: ssl.SSLContext | None = None) -> Iterator[Served]:
    """Answer each request with these bytes, or with what is made of its head and body, and close the connection."""

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            head, length = b"", 0
            while (line := self.rfile.readline()).strip():
                head += line
                name, _, value = line.partition(b":")
                length = int(value) if name.lower() == b"content-length" else length
            if not head:
                return
            body = self.rfile.read(length)
            served.requests.append((head, body))
            self.wfile.write(respond if isinstance(respond, bytes) else respond(head, body))

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True

        def get_request(self) -> tuple[Any, Any]:
            connection, address = super().get_request()
            return (connection if tls is None else tls.wrap_socket(connection, server_side=True)), address

        def handle_error(self, *_: object) -> None:
            """A client that gives up is what some tests want."""

    with Server(("127.0.0.1", 0), Handler) as server:
        served = Served(server.server_address[1])
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield served
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def serving_app(app: Any) -> Iterator[str]:
    """Serve an ASGI application; its URL."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        server = uvicorn.Server(uvicorn.Config(app, log_level="critical", lifespan="off"))
        thread = threading.Thread(target=server.run, args=([taken],))
        thread.start()
        deadline = time.monotonic() + 10
        while not server.started:
            assert time.monotonic() < deadline, "the server did not start"
            time.sleep(0.01)
        try:
            yield f"http://127.0.0.1:{taken.getsockname()[1]}/"
        finally:
            server.should_exit = True
            thread.join()
