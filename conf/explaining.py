"""What is wrong with settings and other TOML that people have written, in words that name each key."""

import tomllib
from types import UnionType
from typing import Annotated, Any, get_args, get_origin

from pydantic import BaseModel, ValidationError

from checkback.exceptions import ConfigurationError

_LISTS = frozenset({"list_type", "tuple_type", "set_type", "frozen_set_type"})
_SIZES = frozenset({"byte_size", "byte_size_unit"})


def explained(error: ValidationError, model: type[BaseModel], what: str) -> str:
    """A sentence for each key that is wrong. ``what`` cannot be used: "These settings"."""
    lines = []
    for problem in error.errors():
        key = ".".join(str(part) for part in problem["loc"]) or what.rsplit(maxsplit=1)[-1]
        message = problem["msg"].removeprefix("Value error, ")
        if problem["type"] in _LISTS:
            message = 'a list is wanted, as ["one", "another"]'
        if problem["type"] in _SIZES:
            message = f'{problem["input"]!r:.80} is not a size: write bytes, or "64 MiB", "1 GB"'
        if problem["type"] == "extra_forbidden":
            message = f"unknown key{_did_you_mean(model, problem['loc'])}"
        lines.append(f"{key}: {message}")
    return f"{what} cannot be used:\n  " + "\n  ".join(lines)


def _did_you_mean(model: type[BaseModel], location: tuple[int | str, ...]) -> str:
    import difflib  # noqa: PLC0415  (for a message that is seldom needed)

    known = _keys_at(model, location[:-1])
    close = difflib.get_close_matches(str(location[-1]), known, n=1)
    return f" (did you mean {close[0]}?)" if close else ""


def _keys_at(kind: Any, location: tuple[int | str, ...]) -> list[str]:
    """Keys that a place in the settings may have: sections, tables and lists of them, tables of several kinds."""
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        fields = kind.model_fields
        return _keys_at(fields[str(location[0])].annotation, location[1:]) if location else list(fields)
    arguments = get_args(kind)
    if get_origin(kind) is Annotated:
        return _keys_at(arguments[0], location)
    if not (arguments and location):
        return []
    if get_origin(kind) is UnionType:  # pydantic puts the word that chose the kind into the place
        chosen = [one for one in arguments if location[0] in get_args(one.model_fields["kind"].annotation)]
        return _keys_at(chosen[0], location[1:]) if chosen else []
    return _keys_at(arguments[-1], location[1:])  # what a list or a table holds


def loaded(text: str) -> dict[str, Any]:
    """What it says.

    Raises:
        ConfigurationError: it is not TOML, or no reader takes it: numbers of thousands of digits, arrays in arrays in
            arrays.
    """
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # its text says where, and shows a character at most
        raise ConfigurationError(f"It is not TOML: {error}.") from None
