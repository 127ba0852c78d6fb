"""Whose announcements of check endpoints are believed: of a group with keys in the access policy, signed ones."""

import logging
import threading
from collections.abc import Callable, Mapping
from time import monotonic
from typing import Any

from access.files import PolicyAndKeys, PolicyFiles
from access.policy import AccessPolicy
from access.verifying import SignedRecord, Verifier, Writer
from checkback.wire.own_headers import own_headers
from checkback.wire.protocol import SIGNATURE
from checkback.wire.signed_records import parted, place_of, spelled, spelled_content
from conf.settings import Settings

_LOGGER = logging.getLogger(__name__)
_MINUTE_SECONDS = 60.0
_SAID_IN_A_MINUTE = 20
"""Whoever may write to the topic can make up as many groups and keys as he likes."""


class Belief:
    """What is believed of a record: here, all, and of any number."""

    def refusal(self, _group: str) -> str:
        """Why it says nothing of a producer group; empty: it is believed."""
        return ""

    def limits(self, _group: str) -> Mapping[str, int]:
        """How many endpoints those accounts of a group may have announced that have such a limit, by their names."""
        return {}

    def rank(self, _group: str) -> int:
        """When room is short, a group loses no endpoint to groups of a lower rank."""
        return 0

    def passed_over(self, group: str, why: str) -> None:
        """Let people know that it was not taken, which the directory has found."""


class _ByPolicy(Belief):
    def __init__(
        self, policy: AccessPolicy, verifier: Verifier, record: Any, place: bytes, say: Callable[[str, str], None]
    ) -> None:
        self._policy, self._verifier = policy, verifier
        self._record, self._place = record, place
        self._say = say
        self._reasons: dict[str, str] = {}

    def refusal(self, group: str) -> str:
        if group not in self._reasons:
            needed = self._verifier.needed(group)
            why = self._verifier.reason(_signed_record(group, self._record), self._place) if needed else ""
            if why:
                self.passed_over(group, why)
            self._reasons[group] = why
        return self._reasons[group]

    def limits(self, group: str) -> Mapping[str, int]:
        named = ((name, self._policy.accounts[name].limits.endpoints) for name in self._policy.of_group(group))
        return {name: limit for name, limit in named if limit is not None}

    def rank(self, group: str) -> int:
        """2: it has keys, and what it announces is signed; 1: an account names it; 0: anyone can make it up."""
        return 2 if self._verifier.needed(group) else int(bool(self._policy.of_group(group)))

    def passed_over(self, group: str, why: str) -> None:
        self._say(group, why)


class Announcers:
    """Judges records of ``cb.producers`` by the files of ``access.policy`` and ``access.secrets``, as they are now.

    Without a policy all are believed. A key without a secret here signs nothing.

    Raises:
        ConfigurationError: as :class:`~access.files.PolicyFiles`.
    """

    def __init__(self, settings: Settings, clock: Callable[[], float] = monotonic) -> None:
        self._place = place_of(settings.kafka.topics.producers, 0)
        self._clock = clock
        self._minute, self._said = 0.0, set[tuple[str, str]]()
        access = settings.access
        self._files = PolicyFiles(access, clock) if access.policy else None
        self._judging: tuple[PolicyAndKeys, Verifier] | None = None
        self._lock = threading.Lock()

    def belief(self, record: Any) -> Belief:
        """What a record of kafka-python's is believed of."""
        if self._files is None:
            return Belief()
        now, verifier = self._now(self._files)
        return _ByPolicy(now.policy, verifier, record, self._place, self._say)

    def has_keys(self, group: str) -> bool:
        """Whether what is written of a producer group has to be signed. For any thread."""
        return self._files is not None and self._now(self._files)[1].needed(group)

    def _now(self, files: PolicyFiles) -> tuple[PolicyAndKeys, Verifier]:
        with self._lock:
            now = files.now()
            if self._judging is None or self._judging[0] is not now:
                self._judging = now, Verifier(now.policy, now.keys)
            return self._judging

    def _say(self, group: str, what: str) -> None:
        """Each once a minute, and of those that anybody can bring about, few."""
        now = self._clock()
        if now >= self._minute:
            self._minute = now + _MINUTE_SECONDS
            self._said.clear()
        if (group, what) in self._said or len(self._said) >= _SAID_IN_A_MINUTE:
            return
        self._said.add((group, what))
        _LOGGER.warning("An announcement of an endpoint of group %s is not believed: %s.", group, what)


def _signed_record(group: str, record: Any) -> SignedRecord:
    ours, others = parted(record.headers)
    content = spelled_content(record.key, record.value, spelled(others))
    signature = own_headers(record.headers).get(SIGNATURE)
    return SignedRecord(group, Writer.PRODUCER, signature, record.timestamp, spelled(ours), content)
