"""Which account a client of a gateway is, by what it shows. No I/O, no clock.

RocketMQ's clients send an access key with ``MQv2-HMAC-SHA1`` (``rpc/Signature`` of its Java client): the id of one of
the account's keys, and a signature of the request's time, which covers neither method nor body. A bearer token, too,
says who somebody is, and no more. Both are to be taken through TLS only, or on this machine.
"""

import hmac
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import NamedTuple

from access.policy import AccessPolicy
from checkback.wire.signature import NotTrustedError
from checkback.wire.signed_records import SigningKey

_ROCKETMQ = re.compile(
    r"MQv2-HMAC-SHA1 +Credential=(?P<key>[^/,\s]*)[^,]*, *(?:SignedHeaders=[^,=]*, *)?"
    r"Signature=(?P<signature>[0-9a-fA-F]{40}) *",
    re.ASCII,
)
_WINDOW_MS = 26 * 3_600_000
"""Java, Python and Go write local time with a "Z", which may be 14 hours off; and clocks are wrong."""
_BEARER = re.compile(r"Bearer +(?P<token>[^\s]+) *", re.ASCII | re.IGNORECASE)
_MOST_CHARACTERS = 1_000


class Caller(NamedTuple):
    """Who somebody has shown to be."""

    account: str
    key_id: str
    """With which; empty: without a policy."""


class Credentials:
    """Of one policy. ``keys`` are the secrets, by id; a key without one opens nothing."""

    def __init__(self, policy: AccessPolicy, keys: Mapping[str, SigningKey]) -> None:
        self._accounts = {key: name for name, one in policy.accounts.items() for key in one.keys if key in keys}
        self._keys = keys

    def of_rocketmq(self, authorization: str, date_time: str, now_ms: int) -> Caller:
        """By the headers ``authorization`` and ``x-mq-date-time``, as RocketMQ's clients write them.

        Raises:
            NotTrustedError: there is no such key, or the signature is not its owner's; it does not say which. Or its
                time is more than 26 hours from ``now_ms``, in ms since 1970.
        """
        found = None if len(authorization) > _MOST_CHARACTERS else _ROCKETMQ.fullmatch(authorization)
        if found is None:
            raise NotTrustedError(
                "An access key is needed: authorization is not MQv2-HMAC-SHA1 Credential=..., Signature=..."
            )
        key = self._keys.get(found["key"])
        signed = b"" if key is None else key.rocketmq_signature(date_time.encode(errors="replace")).encode()
        caller = self._caller(found["key"], hmac.compare_digest(signed, found["signature"].lower().encode()))
        if abs(now_ms - _ms_of(date_time)) > _WINDOW_MS:
            raise NotTrustedError("x-mq-date-time is more than 26 hours away from this clock: set yours (NTP).")
        return caller

    def of_bearer(self, authorization: str) -> Caller:
        """By the header ``authorization: Bearer TOKEN``; ``checkback access token`` makes one of a key.

        Raises:
            NotTrustedError: it is not one of a key of these.
        """
        found = None if len(authorization) > _MOST_CHARACTERS else _BEARER.fullmatch(authorization)
        if found is None:
            raise NotTrustedError("A token is needed: authorization is not Bearer TOKEN.")
        key_id = found["token"].rpartition(".")[0]
        key = self._keys.get(key_id)
        token = b"" if key is None else key.bearer_token.encode()
        return self._caller(key_id, hmac.compare_digest(token, found["token"].encode(errors="replace")))

    def _caller(self, key_id: str, fits: bool) -> Caller:  # noqa: FBT001  (the two are said together)
        if not fits or key_id not in self._accounts:
            raise NotTrustedError("The key is not one of an account's, or its secret is another one.")
        return Caller(self._accounts[key_id], key_id)


def _ms_of(date_time: str) -> int:
    try:
        return int(datetime.strptime(date_time, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC).timestamp()) * 1_000
    except ValueError:
        raise NotTrustedError("x-mq-date-time is not a time like 20261126T235959Z.") from None
