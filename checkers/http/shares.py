"""What the check service has only so much of, shared among producer groups so that none takes all. No clock."""

import errno
import resource
from dataclasses import dataclass, field

MIB = 1024 * 1024
_RESERVED_FILES = 224  # of the process for other things: Kafka's clients, log files, Spark's gateway
_MOST_CONNECTIONS = 4_096
_LACKING = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


class OwnMeansError(OSError):
    """Something of our own was lacking, so that nothing is known of the endpoint."""

    def __init__(self, reason: str) -> None:
        super().__init__(errno.EAGAIN, reason)


def is_ours(error: BaseException | None) -> bool:
    """Whether an error says that this process or machine has run out of files, memory, threads."""
    while error is not None:
        if isinstance(error, OwnMeansError) or (isinstance(error, OSError) and error.errno in _LACKING):
            return True
        error = error.__cause__ or error.__context__
    return False


class Shares:
    """``total`` units; each group may hold about as many as are still free for others.

    A group that holds nothing gets what it asks for as long as that is free at all. One that holds some gets more only
    while it would then hold no more than what is left for others, and a quarter is left to groups that hold nothing.
    So one group alone holds up to three eighths, ten hold about a fifteenth each, and one that comes while all others
    hang with all they have still gets its first unit at once. As units come back the shares become equal.
    """

    def __init__(self, total: int) -> None:
        self.total = total
        self._reserve = total // 4
        self._used = 0
        self._held: dict[str, int] = {}

    @property
    def free(self) -> int:
        """Units that nobody holds."""
        return self.total - self._used

    def held(self, group: str) -> int:
        """Units that a group holds."""
        return self._held.get(group, 0)

    def take(self, group: str, amount: int = 1) -> bool:
        """Take so many units; False when that is more than the group's share, and then none is taken."""
        held, left = self.held(group), self.free - amount
        if left < 0 or (held and held + amount > left - self._reserve):
            return False
        self._held[group] = held + amount
        self._used += amount
        return True

    def room(self, group: str) -> int:
        """How many units :meth:`take` would give to a group at once."""
        held = self.held(group)
        return max(0, (self.free - self._reserve - held) // 2 if held else self.free)

    def give(self, group: str, amount: int = 1) -> None:
        """Give back so many units of a group's."""
        held = self._held[group] - amount
        if held:
            self._held[group] = held
        else:
            del self._held[group]
        self._used -= amount


def connections_in_all() -> int:
    """Connections to endpoints at once: a third of the files that the process may open.

    A third, since about as many may be idle, kept for the next request (:mod:`checkers.http.session`).
    """
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files == resource.RLIM_INFINITY:
        return _MOST_CONNECTIONS
    return min(_MOST_CONNECTIONS, max(8, (files - _RESERVED_FILES) // 3))


@dataclass(frozen=True)
class GroupShares:
    """All that the groups share while their checks wait and are asked."""

    connections: Shares = field(default_factory=lambda: Shares(connections_in_all()))
    bytes: Shares = field(default_factory=lambda: Shares(256 * MIB))
    """Of checks that wait or are under way."""
