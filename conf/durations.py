"""Durations as people write them: ``500ms``, ``6s``, ``10min``, ``72h``, ``7d``. In the program: whole ms."""

import re
from typing import Annotated, Any

from pydantic import BeforeValidator, PlainSerializer

_UNITS_MS = {"ms": 1, "s": 1_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
_FORM = re.compile(r"\s*(\d+)\s*(ms|s|min|h|d)\s*")


def parse(text: Any) -> int:
    """Milliseconds of a duration with its unit.

    Raises:
        ValueError: no number with a unit. A bare number is refused: nobody remembers its unit.
    """
    found = _FORM.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        raise ValueError(f"write a duration with its unit, like '500ms', '6s', '10min', '72h'; not {text!r}")
    return int(found[1]) * _UNITS_MS[found[2]]


def spell(milliseconds: int) -> str:
    """The duration in the largest unit that leaves a whole number."""
    for unit, size in sorted(_UNITS_MS.items(), key=lambda item: -item[1]):
        if milliseconds and milliseconds % size == 0:
            return f"{milliseconds // size}{unit}"
    return "0ms"


Milliseconds = Annotated[int, BeforeValidator(parse), PlainSerializer(spell, return_type=str)]
"""A duration in a settings model: read from text with a unit, an int of ms in the program."""
