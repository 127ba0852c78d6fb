"""Writes the tables of rights and of the policy's rules into their pages: ``python -m docs.security``."""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from access import ResourceKind, Right, Role, Whom, rights_of
from access.policy import RULES

PAGE = Path(__file__).parent / "security.md"
POLICY_PAGE = Path(__file__).parent / "access-policy.md"
_PART = re.compile(r"(<!-- rights: written by make docs -->\n).*?(<!-- end -->)", re.DOTALL)
_RULES = re.compile(r"(<!-- rules: written by make docs -->\n).*?(<!-- end -->)", re.DOTALL)
_WHOM = Whom(group="GROUP", real=("TOPIC",))
_KINDS = {ResourceKind.TOPIC: "", ResourceKind.GROUP: "group ", ResourceKind.TRANSACTIONAL_ID: "transactional id "}


def written(page: str) -> str:
    """The page, with the table as ``access/roles.py`` says it now."""
    if len(_PART.findall(page)) != 1:
        raise ValueError("docs/security.md must have one part for the rights.")
    return _PART.sub(lambda found: f"{found[1]}{_table()}\n{found[2]}", page)


def _table() -> str:
    rows = [f"| {who} | {row} |" for who, rights in _roles() for row in _rows(rights)]
    return "\n".join(["| role | right | on |", "| --- | --- | --- |", *rows])


def _roles() -> Iterator[tuple[str, Iterable[Right]]]:
    for role in Role:
        rights = rights_of(role, _WHOM)
        if role is Role.OPERATOR:  # is said as what it has beside a reader's
            rights = tuple(right for right in rights if right not in rights_of(Role.READER, _WHOM))
        yield role.value, rights
        if role is Role.PRODUCER:
            direct = rights_of(role, Whom(group="GROUP", real=("TOPIC",), direct=True))
            yield "producer, direct", (right for right in direct if right not in rights)


def _rows(rights: Iterable[Right]) -> Iterator[str]:
    by_operation: dict[str, list[str]] = {}
    for one in rights:
        name = f"{_KINDS[one.kind]}`{one.name}{'*' if one.prefixed else ''}`"
        by_operation.setdefault(one.operation, []).append(name)
    for operation, names in by_operation.items():
        yield f"{operation} | {', '.join(names)}"


def with_rules(page: str) -> str:
    """The page of the policy, with the rules as ``access/policy.py`` has them now."""
    if len(_RULES.findall(page)) != 1:
        raise ValueError("docs/access-policy.md must have one part for the rules.")
    rows = [f"| {rule.when} | {'yes' if rule.allowed else 'no'} |" for rule in RULES]
    table = "\n".join(["| where | may it send |", "| --- | --- |", *rows])
    return _RULES.sub(lambda found: f"{found[1]}{table}\n{found[2]}", page)


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    POLICY_PAGE.write_text(with_rules(POLICY_PAGE.read_text(encoding="utf-8")), encoding="utf-8")
