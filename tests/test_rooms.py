"""The rooms of docs/architecture.md, held against what the modules import."""

import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = (
    "access",
    "gateway",
    "state",
    "conf",
    "checkback",
    "checkers",
    "streaming",
    "bench",
    "torture",
    "status_page",
    "checkback_cli",
    "lab_cli",
)


@dataclass(frozen=True)
class Room:
    """A row of the table."""

    name: str
    modules: tuple[str, ...]
    stands_on: frozenset[str]
    packages: frozenset[str]


@cache
def rooms() -> tuple[Room, ...]:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    section = text.split("## Rooms", 1)[1].split("\n## ", 1)[0]
    rows = [row.strip("| ").split(" | ") for row in section.splitlines() if row.startswith("| ")][2:]
    return tuple(
        Room(name, tuple(re.findall(r"`([^`]+)`", modules)), parted(stands_on, "; "), parted(packages, ", "))
        for name, modules, _, stands_on, packages in rows
    )


def parted(cell: str, at: str) -> frozenset[str]:
    return frozenset() if cell == "-" else frozenset(cell.split(at))


@cache
def modules() -> dict[str, Path]:
    found = (path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
    return {".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path for path in found}


def room_of(module: str) -> str:
    fitting = [
        (len(pattern), room.name)
        for room in rooms()
        for pattern in room.modules
        if module == pattern.removesuffix(".*") or (pattern.endswith(".*") and module.startswith(pattern[:-1]))
    ]
    return max(fitting)[1]


def imported(module: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(modules()[module].read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.module
            assert not node.level
            inside = (f"{node.module}.{name.name}" for name in node.names)
            yield from (name if name in modules() else node.module for name in inside)


def found_in(room: str) -> tuple[set[str], set[str]]:
    """Rooms it stands on, packages it imports."""
    others, packages = set[str](), set[str]()
    for module in modules():
        if room_of(module) == room:
            for name in imported(module):
                top = name.split(".")[0]
                if top in PACKAGES:
                    others.add(room_of(name))
                elif top not in sys.stdlib_module_names:
                    packages.add(top)
    return others - {room}, packages


def test_a_room_imports_what_the_table_says_and_nothing_else() -> None:
    said = {room.name: (set(room.stands_on), set(room.packages)) for room in rooms()}
    assert {name: found_in(name) for name in said} == said


def test_no_room_stands_on_one_below_it() -> None:
    above = set[str]()
    for room in rooms():
        assert room.stands_on <= above, room.name
        above.add(room.name)


def test_no_modules_import_one_another_in_a_circle() -> None:
    waits_for: dict[str, set[str]] = {}
    for module in modules():
        waits_for[module] = {name for name in imported(module) if name in modules() and name != module}
    while free := {module for module, others in waits_for.items() if not others}:
        for module in free:
            del waits_for[module]
        waits_for = {module: others - free for module, others in waits_for.items()}
    assert waits_for == {}


OF_KAFKA = ("kafka", "confluent_kafka")
PRODUCT = ("access", "gateway", "state", "conf", "checkback", "checkers", "streaming", "status_page", "checkback_cli")
CLIENTS = {"KafkaConsumer", "KafkaProducer", "KafkaAdminClient", "GroupAdmin", "Consumer", "Producer", "AdminClient"}


def product_outside_the_kafka_room() -> Iterator[str]:
    for module in modules():
        if module.split(".")[0] in PRODUCT and not module.startswith("checkback.kafka"):
            yield module


def test_nobody_but_the_kafka_room_imports_a_kafka_library() -> None:
    """What we use of a library is listed in its ``library.py``; what it hides, in ``repairs.py``."""
    found = [
        (module, name)
        for module in product_outside_the_kafka_room()
        for name in imported(module)
        if name.split(".")[0] in OF_KAFKA
    ]
    assert found == []


def test_nobody_but_the_kafka_room_makes_a_client() -> None:
    """``make_client`` refuses options that are wrong or ours to set, and says when no Kafka answers."""
    found = [
        (module, call.func.id)
        for module in product_outside_the_kafka_room()
        for call in ast.walk(ast.parse(modules()[module].read_text(encoding="utf-8")))
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in CLIENTS
    ]
    assert found == []


@pytest.mark.parametrize("library", ["checkback.kafka.kafka_python.library", "checkback.kafka.librdkafka.library"])
def test_a_library_lists_what_is_used_of_it_and_nothing_else(library: str) -> None:
    used = {
        alias.name
        for module in product_outside_the_kafka_room()
        for node in ast.walk(ast.parse(modules()[module].read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and node.module == library
        for alias in node.names
    }
    listed = {
        alias.name
        for node in ast.parse(modules()[library].read_text(encoding="utf-8")).body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert used == listed
