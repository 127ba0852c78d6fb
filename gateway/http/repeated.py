"""``Idempotency-Key``: what is posted again under the same key is done once, and something else under it is refused."""

from hashlib import sha256

from starlette.requests import Request

from gateway.load import converted
from gateway.once import Once
from gateway.refusals import GatewayError, RefusalReason
from gateway.transactions import ActingAs

HEADER = "idempotency-key"
_MOST_CHARACTERS = 255


class Repeated:
    """The keys of the last minutes, as far as this process has seen them."""

    def __init__(self) -> None:
        self._first: Once[bytes] = Once()

    async def key_of(self, sender: ActingAs, request: Request, body: bytes) -> str:
        """The request's key; empty when it has none.

        Raises:
            GatewayError: the key is not one, or came with something else before.
        """
        key = request.headers.get(HEADER)
        if key is None:
            return ""
        if not 0 < len(key) <= _MOST_CHARACTERS:
            raise GatewayError(RefusalReason.REQUEST, f"Idempotency-Key has 1 to {_MOST_CHARACTERS} characters.")
        named = request.url.path.encode() + b"\0"
        digest = await converted(len(body), lambda: sha256(named + body).digest())

        async def this() -> bytes:
            return digest

        if await self._first.do(f"{sender.caller.account}\0{sender.group}\0{key}", this) != digest:
            raise GatewayError(
                RefusalReason.ONCE,
                "Another request had this Idempotency-Key before: each message needs a new one.",
            )
        return key
