"""A real S3 behind a proxy that takes ``If-None-Match`` away, as some stores do not know it, or loses answers."""

import http.client
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

_OWN = frozenset({"host", "connection", "expect", "if-none-match"})


@contextmanager
def without_conditions(port: int, lost: list[int] | None = None) -> Iterator[int]:
    """Another port for the S3 server at this one, which must not look at signatures.

    With ``lost``, conditions stay. The first answer to a conditional PUT of each object is lost; its status goes there.
    """
    seen: set[str] = set()
    own = _OWN if lost is None else _OWN - {"if-none-match"}

    class Forward(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def forward(self) -> None:
            content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            server = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
            kept = {name: value for name, value in self.headers.items() if name.lower() not in own}
            server.request(self.command, self.path, content or None, kept)
            answer = server.getresponse()
            said = b"" if self.command == "HEAD" else answer.read()
            if lost is not None and "If-None-Match" in self.headers and self.path not in seen:
                seen.add(self.path)
                lost.append(answer.status)
                self.close_connection = True
                return
            self.send_response(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in {"connection", "transfer-encoding", "content-length", "date", "server"}:
                    self.send_header(name, value)
            self.send_header(
                "Content-Length", (answer.getheader("Content-Length") or "0") if not said else str(len(said))
            )
            self.end_headers()
            self.wfile.write(said)
            server.close()

        do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = forward  # noqa: N815  (as its base class calls them)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Forward) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()
