"""Writes the generated parts of ``docs/semantics.md`` from ``state/table.py``: ``python docs/semantics.py``."""

import ast
import inspect
import re
from collections.abc import Callable
from enum import IntEnum
from itertools import pairwise
from pathlib import Path

from state.table import KEPT, TABLE, Effect, Event, State

PAGE = Path(__file__).parent / "semantics.md"


def written(page: str) -> str:
    """The page, with each generated part as the table says it now."""
    for name, make in _PARTS.items():
        part = re.compile(rf"(<!-- {name}: written by make docs -->\n).*?(<!-- end -->)", re.DOTALL)
        if len(part.findall(page)) != 1:
            raise ValueError(f"docs/semantics.md must have one part named {name!r}.")
        text = make()
        page = part.sub(lambda found, text=text: f"{found[1]}{text}\n{found[2]}", page)  # type: ignore[misc] # mypy cannot infer a lambda with a default
    return page


def _states() -> str:
    said = _meanings(State)
    rows = [f"| {state.name} | {said[state.name]} | {'yes' if state in KEPT else 'no'} |" for state in State]
    return "\n".join(["| state | meaning | message kept |", "| --- | --- | --- |", *rows])


def _events() -> str:
    said = _meanings(Event)
    return "\n".join(
        ["| event | what has happened |", "| --- | --- |", *(f"| {e.name} | {said[e.name]} |" for e in Event)]
    )


def _outcomes() -> str:
    said = _meanings(Effect)
    rows = [f"| {outcome.name} | {said[outcome.name]} |" for outcome in Effect if outcome != Effect.NONE]
    return "\n".join(["| | |", "| --- | --- |", *rows])


def _table() -> str:
    head = f"| event | {' | '.join(state.name for state in State)} |"
    rows = [f"| {event.name} | {' | '.join(_cell(state, event) for state in State)} |" for event in Event]
    return "\n".join([head, f"| {' | '.join(['---'] * (len(State) + 1))} |", *rows])


def _cell(state: State, event: Event) -> str:
    if event not in TABLE[state]:
        return "-"
    following, outcome = TABLE[state][event]
    return following.name if outcome == Effect.NONE else f"{following.name} ({outcome.name})"


def _diagram() -> str:
    lines = ["```mermaid", "stateDiagram-v2"]
    for state, row in TABLE.items():
        for target in State:
            names = [event.name for event, (following, _) in row.items() if following == target != state]
            if names:
                source = "[*]" if state == State.ABSENT else state.name
                lines.append(f"    {source} --> {target.name}: {', '.join(names)}")
    return "\n".join([*lines, "```"])


def _meanings(kind: type[IntEnum]) -> dict[str, str]:
    """What the text below each member says; a member without one says it by its name."""
    (body,) = ast.parse(inspect.getsource(kind)).body
    statements = body.body if isinstance(body, ast.ClassDef) else []
    found = {member.name: member.name.replace("_", " ").lower() for member in kind}
    for before, after in pairwise(statements):
        if isinstance(before, ast.Assign) and isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
            (target,) = before.targets
            found[ast.unparse(target)] = " ".join(str(after.value.value).split()).replace("``", "`")
    return found


_PARTS: dict[str, Callable[[], str]] = {
    "states": _states,
    "diagram": _diagram,
    "events": _events,
    "table": _table,
    "outcomes": _outcomes,
}

if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
