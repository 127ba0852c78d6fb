"""Who a client is, and what he may: by the access policy, where there is one."""

from collections.abc import Callable, Mapping
from time import time_ns

from access.credentials import Caller, Credentials
from access.files import PolicyAndKeys, PolicyFiles
from access.policy import AccessPolicy, acts_for, judge
from checkback.wire.protocol import Topics
from checkback.wire.signature import NotTrustedError
from checkback.wire.signed_records import SigningKey
from conf.settings import AccessSettings
from gateway.load import BytesInFlight
from gateway.refusals import GatewayError, RefusalReason

ANYBODY = Caller("", "")
"""Without a policy nobody has to say who he is."""
_STREAMS_BYTES = 320 << 20
"""Of 5,000 streams of RocketMQ's clients."""


class Accounts:
    """Of the policy as it is now. Without one everybody may everything.

    Raises:
        ConfigurationError: as :class:`~access.files.PolicyFiles`.
    """

    def __init__(
        self, access: AccessSettings, own: Topics, clock_ms: Callable[[], int] = lambda: time_ns() // 1_000_000
    ) -> None:
        self._own = own
        self.clock_ms = clock_ms
        self.in_flight = BytesInFlight()
        self.streams = BytesInFlight(_STREAMS_BYTES)
        self._files = PolicyFiles(access) if access.policy else None
        self._policy: PolicyAndKeys | None = None
        """That of ``_credentials``."""
        self._credentials = Credentials(AccessPolicy(), {})

    @property
    def wanted(self) -> bool:
        """Whether there is a policy, so that clients have to show who they are."""
        return self._files is not None

    def of_rocketmq(self, metadata: Mapping[str, str]) -> Caller:
        """By the headers that RocketMQ's clients send with each call.

        Raises:
            GatewayError: they do not show who it is.
        """
        shown, time = metadata.get("authorization", ""), metadata.get("x-mq-date-time", "")
        return self._caller(lambda credentials: credentials.of_rocketmq(shown, time, self.clock_ms()))

    def of_bearer(self, authorization: str) -> Caller:
        """By the header ``authorization`` of a request over HTTP. Raises as :meth:`of_rocketmq`."""
        return self._caller(lambda credentials: credentials.of_bearer(authorization))

    def _caller(self, read: Callable[[Credentials], Caller]) -> Caller:
        in_force = self._now()
        if in_force is None:
            return ANYBODY
        if self._policy is not in_force:
            self._policy, self._credentials = in_force, Credentials(in_force.policy, in_force.keys)
        try:
            return read(self._credentials)
        except NotTrustedError as error:
            raise GatewayError(RefusalReason.WHO, str(error)) from None

    def may_act(self, caller: Caller, group: str) -> bool:
        """Whether somebody may send, end and answer as a producer group."""
        in_force = self._now()
        if in_force is None:
            return True
        policy, keys = in_force
        account = policy.accounts.get(caller.account)
        shown = account is not None and caller.key_id in {*account.keys} & keys.keys()
        return shown and acts_for(policy, caller.account, group)

    def refuse_foreign(self, caller: Caller, group: str) -> None:
        """Raises GatewayError where somebody may not: see :meth:`may_act`."""
        if not self.may_act(caller, group):
            raise GatewayError(
                RefusalReason.RIGHTS, f"account {caller.account} may not act as group {group}, which it does not name"
            )

    def refuse_topic(self, caller: Caller, group: str, topic: str) -> None:
        """Raises GatewayError where he may not have a message delivered to a topic as this group."""
        in_force = self._now()
        if in_force is None:
            return
        verdict = judge(in_force.policy, group, topic, self._own, caller.account)
        if not verdict.allowed:
            raise GatewayError(RefusalReason.RIGHTS, verdict.reason)

    def signing(self, caller: Caller, group: str) -> SigningKey | None:
        """The key that what he has written of a group is signed with; None where nothing has to be signed.

        Raises:
            GatewayError: no account of the group has a key with a secret here.
        """
        in_force = self._now()
        if in_force is None:
            return None
        policy, keys = in_force
        named = [key for name in policy.of_group(group) for key in policy.accounts[name].keys]
        if not named:
            return None
        for key in (caller.key_id, *named):
            if key in named and key in keys:
                return keys[key]
        raise GatewayError(RefusalReason.RIGHTS, f"access.secrets of this gateway has no key of group {group}")

    def _now(self) -> PolicyAndKeys | None:
        return None if self._files is None else self._files.now()
