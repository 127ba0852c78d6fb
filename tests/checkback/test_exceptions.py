"""The exceptions are what their module says of them."""

import inspect
import re
from typing import Any, NamedTuple

from checkback import exceptions
from checkback.exceptions import CheckbackError

CLASSES: dict[str, Any] = {
    name: one
    for name, one in vars(exceptions).items()
    if inspect.isclass(one) and issubclass(one, BaseException) and one.__module__ == exceptions.__name__
}


class Drawn(NamedTuple):
    """A line of the tree in the module's docstring."""

    parent: str | None
    remark: str


def drawn() -> dict[str, Drawn]:
    tree: dict[str, Drawn] = {}
    above: list[str] = []
    for line in inspect.cleandoc(exceptions.__doc__ or "").splitlines():
        found = re.fullmatch(r"    (?P<branches>[│├└─ ]*)(?P<name>\w+Error)\s+(?P<remark>\S.*)", line)
        if found is not None:
            depth = len(found["branches"]) // 4
            del above[depth:]
            tree[found["name"]] = Drawn(above[-1] if above else None, found["remark"])
            above.append(found["name"])
    return tree


def test_there_is_one_root() -> None:
    assert CheckbackError.__bases__ == (Exception,)
    assert [one for one in CLASSES.values() if not issubclass(one, CheckbackError)] == []


def test_every_class_is_drawn_and_every_drawn_one_is_there() -> None:
    assert drawn().keys() == CLASSES.keys()


def test_the_drawn_parents_are_true() -> None:
    parents = {name: one.__bases__[0].__name__ for name, one in CLASSES.items() if one is not CheckbackError}
    assert {name: row.parent for name, row in drawn().items() if row.parent} == parents


def test_what_may_be_tried_again_is_drawn() -> None:
    said = {name for name, row in drawn().items() if row.remark.startswith("retriable = True")}
    assert said == {name for name, one in CLASSES.items() if one.retriable}
    assert said == {
        "CheckServiceError",
        "ConsumerError",
        "DestinationError",
        "GroupOverLimitError",
        "HalfMessageTimeoutError",
        "InputCutShortError",
        "JobFailedError",
        "KafkaLostError",
        "KafkaUnreachableError",
        "RecordLostError",
    }
    assert drawn()["CheckbackError"].remark == "retriable = False"


def test_every_class_says_what_it_is_for() -> None:
    assert [name for name, one in CLASSES.items() if not (one.__dict__.get("__doc__") or "").strip()] == []
