"""Which endpoints a producer group has: fixed ones from the settings, or those announced in ``cb.producers``."""

import logging
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

from checkback.exceptions import ProtocolError
from checkback.wire.checks import SILENT, Announcement
from checkers.announcers import Belief
from checkers.facts import EndpointStanding, GroupStanding
from checkers.http.shares import MIB, Shares
from conf.redaction import redacted
from conf.settings import CheckSettings

_LOGGER = logging.getLogger(__name__)
PER_GROUP = 1_000
"""So many announced endpoints of one group are known: those heard from last."""
_OWN_BYTES, _TOPIC_BYTES = 1_024, 64  # about what one, and each of its topics, costs beside its key and value
_MOST_GONE = 1_000  # groups
_MOST_SHOWN, _MOST_TOPICS_SHOWN = 20, 100
_MINUTES_FROM = 120  # seconds of silence
_ALL = Belief()
_RANKS = 3
_LOGGED_AGAIN_MS = 60_000
NOT_TAKEN = "it has announced itself, and that is not taken"
_AGED_AT_ONCE = 4  # more than one for each that comes: dead ones are forgotten faster than new ones are heard


class Endpoint(NamedTuple):
    """Where to ask, and how many checks at once."""

    url: str
    batch: int = 1


LiveEndpoint = tuple[Endpoint, int | None, tuple[str, ...] | None]
"""When it was heard (None: the settings name it), and the real topics that it answers for (None: all)."""


class PassedOver(NamedTuple):
    """An announcement that was not taken."""

    url: str
    heard_ms: int
    why: str


class _Heard(NamedTuple):
    announced: Announcement
    endpoint: Endpoint
    heard_ms: int
    size: int
    accounts: tuple[str, ...]
    """Whose limits it counts for."""
    rank: int


class EndpointDirectory:
    """Endpoints by producer group. Heard announcements live ``ttl_ms`` from when they were heard.

    Of a group at most ``per_group`` are known, and all announcements together take ``bytes_in_all`` bytes at most, of
    which each group has its share: one that announces too many loses its own oldest. When others leave no room for a
    group, the oldest of the lowest rank (:meth:`~checkers.announcers.Belief.rank`) are forgotten. Announcements for a
    group with fixed ones count only if ``beside_fixed`` is set.
    """

    def __init__(
        self,
        fixed: Mapping[str, Sequence[str]],
        ttl_ms: int,
        per_group: int = PER_GROUP,
        bytes_in_all: int = 64 * MIB,
        *,
        beside_fixed: bool = False,
    ) -> None:
        self._fixed = {group: [Endpoint(url) for url in urls] for group, urls in fixed.items()}
        self._alone = frozenset() if beside_fixed else frozenset(self._fixed)
        """Groups whose announcements do not count."""
        self._ttl_ms = ttl_ms
        self._per_group = per_group
        self._bytes = Shares(bytes_in_all)
        # groups and keys of all announcements, by rank, and each group's announcements: the last heard are at the end
        self._heard: list[OrderedDict[tuple[str, bytes], None]] = [OrderedDict() for _ in range(_RANKS)]
        self._announced: dict[str, OrderedDict[bytes, _Heard]] = {}
        self._groups_of: dict[bytes, set[str]] = {}
        """Of each key: one, unless some are not believed of what others have announced under it."""
        self._of_accounts: Counter[str] = Counter()
        self._gone: OrderedDict[str, tuple[str, int]] = OrderedDict()
        """Of groups that have sent no heartbeat for too long: the last endpoint, and when it was heard from."""
        self._passed_over: OrderedDict[str, PassedOver] = OrderedDict()
        self._next_log_ms: int | None = None

    def hear(self, key: bytes, value: bytes | None, now_ms: int, belief: Belief = _ALL) -> None:
        """Take in a record of ``cb.producers``; one that cannot be read takes back what its key has announced.

        Of a group that ``belief`` refuses it changes nothing, whatever others have announced under the same key. What
        would be more than an account may have announced is passed over, until others lapse.
        """
        self._forget_dead(now_ms)
        said = _read(key, value)
        again = said is not None and said.group in self._groups_of.get(key, ())
        for group in tuple(self._groups_of.get(key, ())):
            if not belief.refusal(group):
                self._forget(group, key)
        if said is None or value is None or said.group in self._alone:
            return
        if why := belief.refusal(said.group):
            self._note(said, now_ms, why)
            return
        limits = belief.limits(said.group)
        full = next((name for name, most in limits.items() if self._of_accounts[name] >= most), None)
        if full is not None and not again:
            why = f"account {full} has its limits.endpoints = {limits[full]:,} announced"
            belief.passed_over(said.group, why)
            self._note(said, now_ms, why)
            return
        rank = belief.rank(said.group)
        size = len(key) + len(value) + _OWN_BYTES + _TOPIC_BYTES * len(said.topics or ())
        if not self._room(said.group, size, rank, now_ms):
            return
        self._gone.pop(said.group, None)
        self._passed_over.pop(said.group, None)
        announced = self._announced.setdefault(said.group, OrderedDict())
        announced[key] = _Heard(said, Endpoint(said.url, said.batch), now_ms, size, tuple(limits), rank)
        self._of_accounts.update(limits.keys())
        self._heard[rank][said.group, key] = None
        self._groups_of.setdefault(key, set()).add(said.group)

    def _note(self, said: Announcement, now_ms: int, why: str) -> None:
        self._passed_over[said.group] = PassedOver(said.url, now_ms, why)
        self._passed_over.move_to_end(said.group)
        if len(self._passed_over) > _MOST_GONE:
            self._passed_over.popitem(last=False)

    def _room(self, group: str, size: int, rank: int, now_ms: int) -> bool:
        """Whether a group can have one more, if need be for the oldest of lower ranks, of its own, or of its rank."""
        if len(self._announced.get(group, ())) >= self._per_group:
            self._forget(group, next(iter(self._announced[group])))
        while not self._bytes.take(group, size):
            oldest = next((next(iter(heard)) for heard in self._heard[:rank] if heard), None)
            if oldest is None and group in self._announced:
                self._forget(group, next(iter(self._announced[group])))
                continue
            oldest = oldest or next(iter(self._heard[rank]), None)
            self._log_full(now_ms)
            if oldest is None:
                return False
            self._forget(*oldest)
        return True

    def _log_full(self, now_ms: int) -> None:
        if self._next_log_ms is None or now_ms >= self._next_log_ms:
            self._next_log_ms = now_ms + _LOGGED_AGAIN_MS
            _LOGGER.warning(
                "Announced endpoints of %d groups fill the %d MiB for them: the oldest are forgotten, first those of "
                "groups that no account of access.policy names. Check who writes to cb.producers.",
                *(len(self._announced), self._bytes.total // MIB),
            )

    def endpoints(self, group: str, topic: str, now_ms: int) -> Iterator[Endpoint]:
        """Endpoints of a group that answer for a topic, the one heard from last first, fixed ones after.

        They are found one by one: the first costs the same however many there are.
        """
        self._forget_dead(now_ms)
        given: set[str] = set()
        for endpoint, _, topics in self.live(group, now_ms):
            if (topics is None or topic in topics) and endpoint.url not in given:
                given.add(endpoint.url)
                yield endpoint

    def live(self, group: str, now_ms: int) -> Iterator[LiveEndpoint]:
        """All of a group, the one heard from last first, fixed ones after; a URL may come more than once."""
        for heard in reversed(self._announced.get(group, {}).values()):
            if now_ms - heard.heard_ms >= self._ttl_ms:
                break  # and so are all that were heard before
            yield heard.endpoint, heard.heard_ms, heard.announced.topics
        yield from ((endpoint, None, None) for endpoint in self._fixed.get(group, ()))

    def groups(self) -> list[str]:
        """Those of which an endpoint is known."""
        return sorted(self._announced.keys() | self._fixed.keys() | self._gone.keys())

    def gone(self, group: str) -> tuple[str, int] | None:
        """The last endpoint of a group that has none any more, and when it was heard from; for people."""
        heard = next(reversed(self._announced.get(group, OrderedDict()).values()), None)
        return (heard.endpoint.url, heard.heard_ms) if heard else self._gone.get(group)

    def passed_over(self, group: str, now_ms: int) -> PassedOver | None:
        """A group's last announcement that was not taken, unless one was since, or it has lapsed; for people."""
        found = self._passed_over.get(group)
        return found if found is not None and now_ms - found.heard_ms < self._ttl_ms else None

    def _forget_dead(self, now_ms: int) -> None:
        for group, key in [name for heard in self._heard for name in islice(heard, _AGED_AT_ONCE)]:
            heard = self._announced[group][key]
            if now_ms - heard.heard_ms < self._ttl_ms:
                continue
            self._forget(group, key)
            self._gone[group] = heard.endpoint.url, heard.heard_ms
            self._gone.move_to_end(group)
            if len(self._gone) > _MOST_GONE:
                self._gone.popitem(last=False)

    def _forget(self, group: str, key: bytes) -> None:
        groups = self._groups_of[key]
        groups.discard(group)
        if not groups:
            del self._groups_of[key]
        announced = self._announced[group]
        heard = announced.pop(key)
        del self._heard[heard.rank][group, key]
        self._bytes.give(group, heard.size)
        for account in heard.accounts:
            self._of_accounts[account] -= 1
            if not self._of_accounts[account]:
                del self._of_accounts[account]
        if not announced:
            del self._announced[group]


def _read(key: bytes, value: bytes | None) -> Announcement | None:
    """None: it takes the announcement back, or cannot be read."""
    try:
        return None if value is None else Announcement.from_record(value, key)
    except ProtocolError:
        return None


def directory_of(checks: CheckSettings) -> EndpointDirectory:
    """With the fixed endpoints of these settings; nobody has announced any yet."""
    fixed = {group: [str(url) for url in urls] for group, urls in checks.endpoints.items()}
    return EndpointDirectory(fixed, checks.endpoint_ttl, beside_fixed=checks.announced_beside_fixed)


def group_standing(
    directory: EndpointDirectory,
    group: str,
    now_ms: int,
    state_of: Callable[[str], tuple[str, str]] = lambda _: ("well", ""),
) -> GroupStanding:
    """Whom one can ask, for people. ``state_of``: an endpoint's state, and why it is not well."""
    found: dict[str, EndpointStanding] = {}
    topics: set[str] | None = set()
    for endpoint, heard_ms, answers_for in directory.live(group, now_ms):
        state, reason = state_of(endpoint.url)
        seconds = None if heard_ms is None else (now_ms - heard_ms) / 1000
        found.setdefault(endpoint.url, EndpointStanding(redacted(endpoint.url), state, seconds, reason))
        if state != "skipped" and topics is not None:
            topics = None if answers_for is None else topics.union(answers_for)
    if not found:
        return GroupStanding(0, 0, tuple(_none_left(directory, group, now_ms)))
    shown = None if topics is None or len(topics) > _MOST_TOPICS_SHOWN else tuple(sorted(topics))
    return GroupStanding(0, 0, tuple(found.values())[:_MOST_SHOWN], shown)


def _none_left(directory: EndpointDirectory, group: str, now_ms: int) -> Iterator[EndpointStanding]:
    """Of a group without endpoints: its announcement that was passed over, else its last endpoint, which is silent."""
    passed_over, gone = directory.passed_over(group, now_ms), directory.gone(group)
    if passed_over is not None:
        seconds = (now_ms - passed_over.heard_ms) / 1000
        yield EndpointStanding(redacted(passed_over.url), "skipped", seconds, f"{NOT_TAKEN}: {passed_over.why}")
    elif gone is not None:
        url, heard_ms = gone
        seconds = (now_ms - heard_ms) / 1000
        silence = f"{seconds:.0f} s" if seconds < _MINUTES_FROM else f"{seconds / 60:.0f} min"
        yield EndpointStanding(redacted(url), "skipped", seconds, f"{SILENT} {silence}")
