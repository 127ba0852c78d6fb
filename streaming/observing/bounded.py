"""Labels of metrics, of which anybody may make new ones: their number is bounded."""

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
