"""In a task: which half messages the policy of its batch does not allow."""

from collections.abc import Iterable

from access.policy import AccessPolicy, judge
from checkback.wire.protocol import Topics

_MOST_PAIRS = 10_000


class NotAllowed:
    """Why a producer group may not send to a topic; remembers what it has said."""

    def __init__(self, policy: AccessPolicy, own: Topics) -> None:
        self._policy = policy
        self._own = own
        self._said: dict[tuple[str, str], str] = {}
        self._accounts: dict[str, tuple[str, ...]] = {}

    def reason(self, group: str, topic: str) -> str:
        """Empty: it may."""
        pair = (group, topic)
        found = self._said.get(pair)
        if found is None:
            if len(self._said) >= _MOST_PAIRS:  # somebody makes names up
                self._said.clear()
            found = self._said[pair] = judge(self._policy, group, topic, self._own).reason
        return found

    def accounts_of(self, group: str) -> tuple[str, ...]:
        """The accounts that a group belongs to, in the order of the file."""
        found = self._accounts.get(group)
        if found is None:
            if len(self._accounts) >= _MOST_PAIRS:
                self._accounts.clear()
            found = self._accounts[group] = tuple(self._policy.of_group(group))
        return found


def why_not_together(policy: NotAllowed | None, group: str, topics: Iterable[str]) -> str:
    """Why a group's messages for these topics are not allowed together; empty: they are, or there is no policy."""
    if policy is None:
        return ""
    return next((why for topic in topics if (why := policy.reason(group, topic))), "")
