"""Text that others have written, for people's terminals and logs."""

import re

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: str) -> str:
    """The text with what could move the cursor, begin a line, or turn the direction of writing spelled as an escape.

    Whoever may write to a topic chooses ids, groups, headers and contents; none of them is to forge a line.
    """
    return _CONTROL.sub(_spelled, text)


def _spelled(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode()
