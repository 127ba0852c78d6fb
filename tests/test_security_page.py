"""docs/security.md says what the roles' table says, and names tests that are there."""

import re
from pathlib import Path

from docs.security import PAGE, POLICY_PAGE, with_rules, written

ROOT = Path(__file__).parents[1]


def test_the_table_is_that_of_the_roles() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page == written(page), "run make docs"


def test_the_rules_are_those_of_the_policy() -> None:
    page = POLICY_PAGE.read_text(encoding="utf-8")
    assert page == with_rules(page), "run make docs"


def test_every_test_that_the_page_names_is_there() -> None:
    named = set(re.findall(r"`(test_\w+)`", PAGE.read_text(encoding="utf-8")))
    files = [path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py")]
    there = {name for text in files for name in re.findall(r"^def (test_\w+)", text, re.MULTILINE)}
    assert named - there == set()
