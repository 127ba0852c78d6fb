"""The transaction ids that a gateway gives out: a half message's place, signed. No I/O.

So a gateway keeps nothing: any other one that has the same secret can end what this one began, also after all of them
were started again; and nobody can end a transaction of which he was not given the id.
"""

import hmac
import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from typing import NamedTuple, Self

from checkback.wire.checks import CheckRequest
from checkback.wire.protocol import HalfPosition
from checkback.wire.signed_records import SigningKey
from gateway.refusals import GatewayError, RefusalReason

_KIND = b"checkback ticket "
"""What is signed begins so: the code of a ticket is the code of nothing else."""
_FOR_URLS = bytes.maketrans(b"+/", b"-_")
_MOST_CHARACTERS = 4_000
"""More than the longest group and id need, all of it escaped."""
_SPELLED = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode
_REFUSED = "This is not a transaction id of these gateways: it was changed, or they have another gateway.secrets now."


class Ticket(NamedTuple):
    """Which transaction is meant. A place alone names nothing: whoever may ask may name any."""

    half: HalfPosition
    transaction_id: str
    group: str

    @classmethod
    def of(cls, check: CheckRequest) -> Self:
        """The transaction that a check is about."""
        return cls(check.half, check.transaction_id, check.group)


class TicketSeal:
    """Signs tickets with the first of some secrets, and takes those that are signed with any of them.

    Raises:
        ConfigurationError: a secret has less than 32 bytes or more than 1,024.
    """

    def __init__(self, secrets: Sequence[str]) -> None:
        self._keys = [SigningKey("gateway.secrets", secret) for secret in secrets]

    def seal(self, ticket: Ticket) -> str:
        """The ticket as text of ``a-z A-Z 0-9 _ - .``: the same each time."""
        content = _SPELLED([*ticket.half, ticket.transaction_id, ticket.group])
        body = urlsafe_b64encode(content.encode()).rstrip(b"=")
        return b".".join((body, _code(self._keys[0], body))).decode()

    def of_check(self, check: CheckRequest) -> str:
        """The sealed ticket of the transaction that a check is about."""
        return self.seal(Ticket.of(check))

    def open(self, text: str) -> Ticket:
        """What was sealed.

        Raises:
            GatewayError: it is not signed with one of the secrets.
        """
        body, _, code = text[: _MOST_CHARACTERS + 1].encode(errors="replace").rpartition(b".")
        if len(text) > _MOST_CHARACTERS or not any(hmac.compare_digest(_code(key, body), code) for key in self._keys):
            raise GatewayError(RefusalReason.TRANSACTION, _REFUSED)
        partition, offset, transaction_id, group = json.loads(urlsafe_b64decode(body + b"=" * (-len(body) % 4)))
        return Ticket(HalfPosition(partition, offset), transaction_id, group)


def _code(key: SigningKey, body: bytes) -> bytes:
    return key.code(_KIND + body).rstrip(b"=").translate(_FOR_URLS)
