"""Rules of CONTRIBUTING.md that no linter has."""

import re
from pathlib import Path

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
