"""docs/semantics.md says what the table says, and names tests that are there."""

import re
from pathlib import Path

from docs.semantics import PAGE, written

ROOT = Path(__file__).parents[1]


def test_the_generated_parts_are_those_of_the_table() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page == written(page), "run make docs"


def test_every_test_that_the_page_names_is_there() -> None:
    named = set(re.findall(r"`(test_\w+)`", PAGE.read_text(encoding="utf-8")))
    files = [path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py")]
    there = {name for text in files for name in re.findall(r"^(?:async )?def (test_\w+)", text, re.MULTILINE)}
    assert len(named) > 40
    assert named - there == set()
