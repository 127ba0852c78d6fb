"""A TCP proxy that drops connections as a load balancer does: neither side gets a FIN or an RST."""

import contextlib
import socket
import threading
from time import monotonic
from types import TracebackType
from typing import Self


class _Connection:
    def __init__(self, client: socket.socket, server: socket.socket) -> None:
        self.client, self.server = client, server
        self.dropped = False
        self.closed = False
        self.last = monotonic()

    def pump(self, source: socket.socket, target: socket.socket) -> None:
        """Forward what comes, until one side closes; a dropped connection only takes what the client sends."""
        with contextlib.suppress(OSError):
            while data := source.recv(65_536):
                if not self.dropped:
                    self.last = monotonic()
                    target.sendall(data)
        if self.dropped and source is self.server:
            return
        self.closed = True
        for end in (self.client, self.server):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()


class SilentProxy:
    """Listens at ``port`` as long as the ``with`` block, and forwards to ``target`` on this machine.

    A connection that is idle for ``idle_seconds`` is dropped; :meth:`drop` drops all that there are.
    """

    def __init__(self, target: int, idle_seconds: float = float("inf")) -> None:
        self._target = target
        self._idle_seconds = idle_seconds
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._connections: list[_Connection] = []
        self._stopped = threading.Event()

    def __enter__(self) -> Self:
        for target in (self._accept, self._watch):
            threading.Thread(target=target, daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stopped.set()
        self._listener.close()
        for connection in self._connections:
            connection.dropped = False
            for end in (connection.client, connection.server):
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)

    @property
    def alive(self) -> frozenset[int]:
        """Connections that are neither dropped nor closed."""
        return frozenset(id(one) for one in self._connections if not (one.dropped or one.closed))

    def drop(self) -> None:
        """Drop all connections; those that come later are served."""
        for connection in self._connections:
            connection.dropped = True

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(("127.0.0.1", self._target))
                connection = _Connection(client, server)
                self._connections.append(connection)
                for ends in ((client, server), (server, client)):
                    threading.Thread(target=connection.pump, args=ends, daemon=True).start()

    def _watch(self) -> None:
        while not self._stopped.wait(0.05):
            for connection in self._connections:
                if monotonic() - connection.last > self._idle_seconds:
                    connection.dropped = True
