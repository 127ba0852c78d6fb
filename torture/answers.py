"""A TCP proxy in front of a store that can lose an answer: the store has done its work, and the client is cut off."""

import re
import socket
import socketserver
import threading
from contextlib import suppress
from typing import NamedTuple, Self

HOST = "127.0.0.1"
_PIECE_BYTES = 1 << 16
_CONNECT_SECONDS = 5.0


class Answer(NamedTuple):
    """How to recognize an answer in the pieces of a connection, as the socket gives them, of both sides."""

    begins: re.Pattern[bytes]
    """The answer can come after a piece that has this."""
    ends: re.Pattern[bytes]
    """It cannot come after a piece that has this, and not ``begins``."""
    piece: re.Pattern[bytes]
    """The answer itself."""


TO_COMMIT = Answer(
    re.compile(rb"C\0\0\0.COPY \d+\0", re.DOTALL),
    re.compile(rb"C\0\0\0.ROLLBACK\0"),
    re.compile(rb"C\0\0\0\x0bCOMMIT\0"),
)
"""That of PostgreSQL to the COMMIT of a transaction that has copied rows."""
TO_LOG_ENTRY = Answer(
    re.compile(rb"\APUT /\S*/_delta_log/\d+\.json[ ?]"),
    re.compile(rb"\A(?:GET|HEAD|PUT|POST|DELETE) /"),
    re.compile(rb"\AHTTP/1.1 (?!100)"),
)
"""That of an S3 server to the PUT of an entry of a Delta table's log."""


class LosingProxy:
    """Listens at ``port`` and forwards to the port ``upstream``; use it as a context manager."""

    def __init__(self, port: int, upstream: int, answer: Answer) -> None:
        self.port = port
        self.lost = 0
        """Answers lost so far."""
        self._upstream, self._answer = upstream, answer
        self._to_lose = threading.Semaphore(0)

    def __enter__(self) -> Self:
        proxy = self

        class Handler(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                with suppress(OSError):  # either side has gone
                    proxy._serve(self.request)

        class Server(socketserver.ThreadingTCPServer):
            allow_reuse_address, daemon_threads, block_on_close = True, True, False

        self._server = Server((HOST, self.port), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def lose_one(self) -> None:
        """Lose the next such answer."""
        self._to_lose.release()

    def _serve(self, client: socket.socket) -> None:
        with socket.create_connection((HOST, self._upstream), _CONNECT_SECONDS) as server:
            server.settimeout(None)
            coming = threading.Event()
            threading.Thread(target=self._forward, args=(client, server, coming), daemon=True).start()
            self._forward(server, client, coming)

    def _forward(self, source: socket.socket, target: socket.socket, coming: threading.Event) -> None:
        with suppress(OSError):
            while piece := source.recv(_PIECE_BYTES):
                if coming.is_set() and self._answer.piece.search(piece) and self._to_lose.acquire(blocking=False):
                    self.lost += 1
                    break
                if self._answer.begins.search(piece):
                    coming.set()
                elif self._answer.ends.search(piece):
                    coming.clear()
                target.sendall(piece)
        for side in (source, target):
            with suppress(OSError):
                side.shutdown(socket.SHUT_RDWR)
