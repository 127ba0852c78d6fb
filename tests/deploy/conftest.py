"""One Prometheus that scrapes installations of all kinds, and evaluates a quick copy of the alerts."""

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote

import pytest
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from checkback.local.kafka import free_port
from tests.deploy.causes import CAUSES, DOWN
from tests.deploy.installation import Installation
from tests.deploy.prometheus import DEPLOY, Prometheus, running_prometheus

FACTOR = 40
"""A minute of the alerts is one and a half seconds here."""
_SCRAPE, _EVALUATE = "2s", "500ms"
_BATCH_SECONDS = 1.0


def quick(alerts: str, factor: int = FACTOR) -> str:
    """The same alerts, with all times that they wait for, and look back over, shortened."""
    millis = {"m": 60_000, "h": 3_600_000}
    text, number = re.subn(
        r"(?<=for: )(\d+)([mh])$|(?<=\[)(\d+)([mh])(?=\])",
        lambda found: f"{int(found[1] or found[3]) * millis[found[2] or found[4]] // factor}ms",
        alerts,
        flags=re.MULTILINE,
    )
    assert number > len(re.findall("alert:", alerts)), "none was left as it is"
    return text


def scraping(targets: str) -> str:
    return f"""
global: {{scrape_interval: {_SCRAPE}, scrape_timeout: {_SCRAPE}, evaluation_interval: {_EVALUATE}}}
rule_files: [alerts.yml]
scrape_configs: [{{job_name: checkback, static_configs: [{targets}]}}]
"""


def target(port: int, name: str, role: str = "job") -> str:
    labels = f'{{job: "{name}", role: {role}, __metrics_path__: "/{name}"}}'
    return f'{{targets: ["127.0.0.1:{port}"], labels: {labels}}}'


@contextmanager
def running_installations() -> Iterator[int]:
    """All of :data:`CAUSES`, with a batch a second; the port on which each has its metrics at its own path.

    What is scraped is written with each batch: a scrape that has to wait for it on a busy machine is given up.
    """
    made = {name: Installation(name, doing) for name, (doing, _) in CAUSES.items()}
    written = {name: generate_latest(one.registry) for name, one in made.items()}
    stopping = threading.Event()

    def work() -> None:
        while not stopping.wait(_BATCH_SECONDS):
            for name, one in made.items():
                one.batch()
                written[name] = generate_latest(one.registry)

    class Scraped(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            text = written[unquote(self.path[1:])]
            self.send_response(200)
            self.send_header("content-type", CONTENT_TYPE_LATEST)
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: object) -> None:
            """Nothing: it is asked a dozen times a second."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Scraped)
    threads = [threading.Thread(target=work), threading.Thread(target=server.serve_forever)]
    for thread in threads:
        thread.start()
    try:
        yield server.server_port
    finally:
        stopping.set()
        server.shutdown()
        server.server_close()
        for thread in threads:
            thread.join()


@pytest.fixture(scope="module")  # no longer than that: it keeps this process busy
def installations() -> Iterator[Prometheus]:
    """A Prometheus that watches all of :data:`CAUSES` and :data:`DOWN`."""
    alerts = quick((DEPLOY / "prometheus" / "alerts.yml").read_text(encoding="utf-8"))
    down = [target(free_port(), name, role) for name, (role, _) in DOWN.items()]
    with running_installations() as port:
        up = [target(port, name) for name in CAUSES]
        with running_prometheus(scraping(", ".join([*up, *down])), alerts=alerts) as prometheus:
            yield prometheus
