"""Text that others have written, for people's terminals and logs."""

import re

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_INVISIBLE = re.compile(
    r"[\xad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200d\u2060-\u2065\u206a-\u206f\u3164\ufe00-\ufe0f\ufeff"
    r"\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
"""Unicode's Default_Ignorable_Code_Point, as far as _CONTROL does not have it: with it two names look alike."""


def printable(text: str) -> str:
    """The text with all that is invisible, moves the cursor, begins a line, or turns the writing, spelled as an escape.

    Whoever may write to a topic chooses ids, groups, headers and contents; none of them is to forge a line.
    """
    return _CONTROL.sub(_spelled, _INVISIBLE.sub(_spelled, text))


def _spelled(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode()
