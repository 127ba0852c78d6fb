"""Reasons as labels: without what is of one record only, so that there are few of them."""

import re

from checkback.wire import protocol
from streaming.observing.bounded import Labels

_NUMBERS = re.compile(r"\d[\d,.]*")
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")
_MOST_CHARACTERS = 80
_labels = Labels(100)


def kind_of(reason: str) -> str:
    """The reason without names and numbers; of the hundredth kind on, ``other``."""
    if reason.startswith(protocol.UNDELIVERABLE):
        reason = f"{protocol.UNDELIVERABLE} topic: {reason.partition(': ')[2]}"
    if reason.startswith("group "):
        reason = f"group over quotas{reason.partition(' of quotas')[2].partition(' = ')[0]}"
    return _labels.of(_NUMBERS.sub("N", _QUOTED.sub("...", reason))[:_MOST_CHARACTERS].rstrip())
