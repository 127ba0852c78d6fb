"""Writes the tables of rights and of the policy's rules into their pages: ``python -m docs.security``."""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from access import ResourceKind, Right, Role, Whom, rights_of
from access.policy import RULES
from access.verifying import SIGNERS, Writer

PAGE = Path(__file__).parent / "security.md"
POLICY_PAGE = Path(__file__).parent / "access-policy.md"
_PART = re.compile(r"(<!-- rights: written by make docs -->\n).*?(<!-- end -->)", re.DOTALL)
_RULES = re.compile(r"(<!-- rules: written by make docs -->\n).*?(<!-- end -->)", re.DOTALL)
_SIGNERS = re.compile(r"(<!-- signers: written by make docs -->\n).*?(<!-- end -->)", re.DOTALL)
SIGNED = {
    Writer.PRODUCER: "a half message, an op of its producer, the announcement of its check endpoint; also what the job "
    "moves for consumers",
    Writer.CHECK: "the answer to a check: `cb-source=check`",
    Writer.OPERATOR: "an operator's decision: `cb-source=operator`",
    Writer.JOB: "a half message that is held: `cb-held`",
    Writer.RETRY: "a half message for `cb.retry.GROUP` or `cb.dlq.GROUP` of its own group",
}
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
    if len(_RULES.findall(page)) != 1 or len(_SIGNERS.findall(page)) != 1:
        raise ValueError("docs/access-policy.md must have one part for the rules, and one for the signers.")
    rows = [f"| {rule.when} | {'yes' if rule.allowed else 'no'} |" for rule in RULES]
    table = "\n".join(["| where | may it send |", "| --- | --- |", *rows])
    page = _RULES.sub(lambda found: f"{found[1]}{table}\n{found[2]}", page)
    return _SIGNERS.sub(lambda found: f"{found[1]}{_signers()}\n{found[2]}", page)


def _signers() -> str:
    if SIGNED.keys() != SIGNERS.keys():
        raise ValueError("Each writer of a record needs a row.")
    rows = [f"| {SIGNED[writer]} | {rule.what} |" for writer, rule in SIGNERS.items()]
    return "\n".join(["| what is written | of a group with keys it needs |", "| --- | --- |", *rows])


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    POLICY_PAGE.write_text(with_rules(POLICY_PAGE.read_text(encoding="utf-8")), encoding="utf-8")
