"""Rules of CONTRIBUTING.md that no linter has."""

import ast
import re
from pathlib import Path

from hypothesis import HealthCheck, settings

ROOT = Path(__file__).parents[1]
_WITHOUT_REASON = re.compile(r"# noqa: [A-Z0-9, ]+$|# type: ignore\[[\w, -]+\]$", re.MULTILINE)


def test_each_ignored_rule_has_its_reason() -> None:
    found = [
        f"{path.relative_to(ROOT)}: {match[0]}"
        for folder in ROOT.iterdir()
        if folder.is_dir() and not folder.name.startswith(".")
        for path in folder.rglob("*.py")
        for match in _WITHOUT_REASON.finditer(path.read_text(encoding="utf-8"))
    ]
    assert found == []


_PRODUCT = ("access", "checkback", "checkback_cli", "checkers", "conf", "gateway", "state", "status_page", "streaming")


_DJANGOS = {"Meta"}  # what Django calls a part of each model


def test_a_class_name_stands_for_one_thing() -> None:
    places: dict[str, list[str]] = {}
    for folder in _PRODUCT:
        for path in (ROOT / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.ClassDef) and node.name not in _DJANGOS:
                    places.setdefault(node.name, []).append(str(path.relative_to(ROOT)))
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


_MOST_LINES = 400


def test_a_module_is_no_longer_than_one_reads() -> None:
    paths = [path for folder in (*_PRODUCT, "tests") for path in (ROOT / folder).rglob("*.py")]
    lines = {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8").count("\n") for path in paths}
    assert {name for name, number in lines.items() if number > _MOST_LINES} == set()


def test_no_generated_example_has_a_time_limit() -> None:
    """A loaded machine exceeds each; the profile in ``tests/conftest.py`` is the one place that says so."""
    assert settings().deadline is None
    assert HealthCheck.too_slow in settings().suppress_health_check
    paths = [path for path in (ROOT / "tests").rglob("*.py") if path.name != "conftest.py"]
    own = re.compile(r"\bsettings\([^)]*\bdeadline=")
    assert [str(path) for path in paths if own.search(path.read_text(encoding="utf-8"))] == []
