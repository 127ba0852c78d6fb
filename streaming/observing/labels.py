"""Labels of metrics, reasons among them, of which anybody may make new ones: their number is bounded."""

import re

from access.refusals import refused
from checkback.wire import protocol

OTHER = "other"
MOST = 200


class Labels:
    """The first ``most`` are told apart, the rest is ``other``."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._known: set[str] = set()

    def of(self, value: str) -> str:
        """The label to use for it."""
        if value not in self._known:
            if len(self._known) >= self._most:
                return OTHER
            self._known.add(value)
        return value


_NUMBERS = re.compile(r"\d[\d,.]*")
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")
_MOST_CHARACTERS = 80
_labels = Labels(100)


def kind_of(reason: str) -> str:
    """The reason without names and numbers; of the hundredth kind on, ``other``."""
    if reason.startswith(protocol.UNDELIVERABLE):
        reason = f"{protocol.UNDELIVERABLE} topic: {reason.partition(': ')[2]}"
    if refused(reason, "", "") is not None:
        return _labels.of("not allowed by the access policy")
    if reason.startswith("group "):
        reason = f"group over quotas{reason.partition(' of quotas')[2].partition(' = ')[0]}"
    return _labels.of(_NUMBERS.sub("N", _QUOTED.sub("...", reason))[:_MOST_CHARACTERS].rstrip())
