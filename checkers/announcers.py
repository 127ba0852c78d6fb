"""Whose announcements of check endpoints are believed: of a group with keys in the access policy, signed ones."""

import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from time import monotonic
from typing import Any, NamedTuple

from access.policy import AccessPolicy, policy_of
from access.signers import Writer
from access.verifying import SignedRecord, Verifier
from checkback.exceptions import ConfigurationError
from checkback.wire.protocol import SIGNATURE
from checkback.wire.signed_records import SigningKey, parted, place_of, spelled, spelled_content
from conf.secrets_file import UnreadableFileError, read_keys
from conf.settings import Settings
from conf.settled_files import SettledFiles, Stamp

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

    def passed_over(self, group: str, why: str) -> None:
        """Let people know that it was not taken, which the directory has found."""


class _InForce(NamedTuple):
    policy: AccessPolicy
    verifier: Verifier
    lacking: frozenset[str]
    """Keys without a secret here."""


class _ByPolicy(Belief):
    def __init__(self, in_force: _InForce, record: Any, place: bytes, say: Callable[[str, str], None]) -> None:
        self._policy, self._verifier, _ = in_force
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

    def passed_over(self, group: str, why: str) -> None:
        self._say(group, why)


class Announcers:
    """Judges records of ``cb.producers`` by the files of ``access.policy`` and ``access.secrets``, as they are now.

    Without a policy all are believed. A key without a secret here signs nothing. While the program runs, files that
    cannot be used change nothing; nor does a policy without an account, or secrets that lack one that was there.

    Raises:
        ConfigurationError: a file cannot be read at the start, or is not a policy.
    """

    def __init__(self, settings: Settings, clock: Callable[[], float] = monotonic) -> None:
        access = settings.access
        self._policy, self._secrets = access.policy, access.secrets
        self._place = place_of(settings.kafka.topics.producers, 0)
        self._clock = clock
        self._files = SettledFiles([Path(name) for name in (access.policy, access.secrets) if name], clock)
        self._minute, self._said = 0.0, set[tuple[str, str]]()
        self._judged: Stamp | None = None
        self._in_force: _InForce | None = None
        if access.policy:
            try:
                self._judged = self._files.stamp()
                policy, keys = self._read()
            except OSError as error:
                raise ConfigurationError(
                    f"access.policy: cannot read {error.filename or access.policy}: {error.strerror}."
                ) from None
            self._in_force = _in_force(policy, keys)
            if self._in_force.lacking:
                lacking = ", ".join(sorted(self._in_force.lacking))
                self._say("", f"access.secrets has no secret of {lacking}: what is signed so is not believed.")

    def belief(self, record: Any) -> Belief:
        """What a record of kafka-python's is believed of."""
        if self._in_force is None:
            return Belief()
        self._look()
        return _ByPolicy(self._in_force, record, self._place, self._say)

    def _look(self) -> None:
        try:
            stamp = self._files.stamp()
            if stamp == self._judged or not self._files.settled(stamp):
                return
            policy, keys = self._read()
        except (OSError, UnreadableFileError) as error:  # it may pass without a change: it is tried again
            self._keep(error)
        except ConfigurationError as error:
            self._judged = stamp
            self._keep(error)
        else:
            self._judged = stamp
            self._change(_in_force(policy, keys), policy)

    def _change(self, found: _InForce, policy: AccessPolicy) -> None:
        before = self._in_force.lacking if self._in_force else frozenset[str]()
        if not policy.accounts:
            self._keep("It names no account any more.")
        elif found.lacking - before:
            self._keep(f"access.secrets has no secret of {', '.join(sorted(found.lacking - before))}.")
        else:
            self._in_force = found

    def _read(self) -> tuple[AccessPolicy, dict[str, SigningKey]]:
        keys = read_keys(self._secrets)
        try:
            return policy_of(Path(self._policy).read_text(encoding="utf-8")), keys
        except (UnicodeDecodeError, ConfigurationError) as error:
            raise ConfigurationError(f"access.policy: {self._policy}: {error}") from None

    def _keep(self, why: object) -> None:
        self._say("", f"The access policy that was read before stays in force for announcements. {why}")

    def _say(self, group: str, what: str) -> None:
        """Each once a minute, and of those that anybody can bring about, few."""
        now = self._clock()
        if now >= self._minute:
            self._minute = now + _MINUTE_SECONDS
            self._said.clear()
        if (group, what) in self._said or len(self._said) >= _SAID_IN_A_MINUTE:
            return
        self._said.add((group, what))
        if group:
            _LOGGER.warning("An announcement of an endpoint of group %s is not believed: %s.", group, what)
        else:
            _LOGGER.warning("%s", what)


def _in_force(policy: AccessPolicy, keys: dict[str, SigningKey]) -> _InForce:
    named = {key for account in policy.accounts.values() if account.groups for key in account.keys}
    return _InForce(policy, Verifier(policy, keys), frozenset(named - keys.keys()))


def _signed_record(group: str, record: Any) -> SignedRecord:
    ours, others = parted(record.headers)
    content = spelled_content(record.key, record.value, spelled(others))
    signature = dict(record.headers).get(SIGNATURE)
    return SignedRecord(group, Writer.PRODUCER, signature, record.timestamp, spelled(ours), content)
