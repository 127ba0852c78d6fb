"""The site of docs/ is built strictly: a link that leads nowhere, or a public name without a docstring, ends it."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from docs import pages

ROOT = Path(__file__).parents[1]
_FETCHED = re.compile(r"<(?:script|img|iframe|link)\b[^>]*\b(?:src|href)=\"?(?:https?:)?//[^\">]*")
REFERENCE = {
    "producing": ("checkback.TransactionProducer.send_in_transaction", "checkback.CheckEndpoint"),
    "consuming": ("checkback.consumer.PushConsumer", "checkback.consumer.ConsumerSettings.mode"),
    "databases": ("checkback.sql.transaction_log.SqlTransactionLog", "checkback.sql.inbox.SqlInbox"),
    "testing": ("checkback.testing.RecordingTransport", "checkback.testing.ask"),
}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_each_public_name_has_its_place(built: Path) -> None:
    for page, names in REFERENCE.items():
        html = (built / "reference" / f"{page}.html").read_text(encoding="utf-8")
        assert [name for name in names if f'id="{name}"' not in html] == []


def test_nothing_is_fetched_from_elsewhere(built: Path) -> None:
    fetched = {found[0] for file in built.rglob("*.html") for found in _FETCHED.finditer(file.read_text("utf-8"))}
    assert fetched == set()


def test_no_role_of_a_docstring_is_left(built: Path) -> None:
    shown = {file.name: file.read_text(encoding="utf-8") for file in (built / "reference").glob("*.html")}
    assert [name for name, html in shown.items() if re.search(r":(meth|class|attr|func):", html)] == []


@pytest.mark.parametrize(
    ("here", "target", "link"),
    [
        ("index.md", "docs/errors.md", "errors.md"),
        ("index.md", "docs/decisions", "decisions/index.md"),
        ("index.md", "state/table.py", f"{pages.REPOSITORY}/blob/main/state/table.py"),
        ("deploy.md", "../docs/metrics.md", "metrics.md"),
        ("vectors/README.md", "../protocol.md", "../protocol.md"),
        ("decisions/0001-state-by-segment.md", "../../deploy/README.md", "../deploy.md"),
        ("errors.md", "nowhere.md", "nowhere.md"),
    ],
)
def test_links_lead_to_pages_or_to_the_repository(here: str, target: str, link: str) -> None:
    assert pages.link(here, target) == link


def test_a_public_name_without_a_docstring_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "shop.py").write_text(
        'class Told:\n    """It is."""\n    def order(self): ...\n    def _pay(self): ...\n'
    )
    monkeypatch.setattr(pages, "ROOT", tmp_path)
    assert pages.undocumented("shop") == ["shop.Told.order"]
