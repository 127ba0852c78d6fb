"""docs/security.md says what the roles' table says, and names tests that are there."""

import re
from pathlib import Path

from access import Operation, Role, Whom, rights_of
from checkback.wire.protocol import Topics
from docs.security import PAGE, POLICY_PAGE, with_rules, written

ROOT = Path(__file__).parents[1]


def test_the_table_is_that_of_the_roles() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page == written(page), "run make docs"


def test_the_rules_are_those_of_the_policy() -> None:
    page = POLICY_PAGE.read_text(encoding="utf-8")
    assert page == with_rules(page), "run make docs"


_WRITERS = {
    "producer": "producers",
    "consumer": "consumers",
    "checks": "check services",
    "operator": "operators",
    "gateway": "gateways",
}
_LEAST = re.compile(r"^\| `(cb\.[\w.]+)` \| ([^|]+) \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)


def test_who_may_write_to_each_topic_is_who_the_roles_say() -> None:
    own = Topics()
    page = PAGE.read_text(encoding="utf-8").partition("### Least rights")[2]
    said = {topic: set(writers.split(", ")) - {"nobody"} for topic, writers, _, _ in _LEAST.findall(page)}
    expected: dict[str, set[str]] = {topic: set() for topic in (*own.all(), own.retry("GROUP"), own.dead("GROUP"))}
    for role in set(Role) - {Role.JOB}:
        for right in rights_of(role, Whom(group="GROUP", real=("TOPIC",))):
            if right.operation is Operation.WRITE and right.name in expected:
                expected[right.name].add(_WRITERS[role])
    assert said == expected


def test_every_test_that_the_page_names_is_there() -> None:
    named = set(re.findall(r"`(test_\w+)`", PAGE.read_text(encoding="utf-8")))
    files = [path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py")]
    there = {name for text in files for name in re.findall(r"^(?:async )?def (test_\w+)", text, re.MULTILINE)}
    assert named - there == set()
