"""Signed check requests: who knows the producer group's key can ask, and nobody else.

The signature is HMAC-SHA256, in hex, over the time (ms since 1970, decimal), a full stop, and the body as sent. The
check service signs with :func:`signed_headers`; an endpoint calls :func:`refusal` before it looks into the body.
"""

import hashlib
import hmac
from collections.abc import Mapping

TIME_HEADER = "checkback-time"
SIGNATURE_HEADER = "checkback-signature"
WINDOW_MS = 300_000
_TIME_DIGITS = 15


def signature(key: bytes, time_ms: int, body: bytes) -> str:
    """The signature of a body at a time."""
    return hmac.digest(key, b"%d.%b" % (time_ms, body), hashlib.sha256).hex()


def signed_headers(key: bytes, time_ms: int, body: bytes) -> dict[str, str]:
    """The two headers of a signed request."""
    return {TIME_HEADER: str(time_ms), SIGNATURE_HEADER: signature(key, time_ms, body)}


def refusal(key: bytes, headers: Mapping[str, str], body: bytes, now_ms: int, window_ms: int = WINDOW_MS) -> str | None:
    """Why a request is not to be trusted, or None. ``headers`` must know names in lower case.

    The signature is compared in constant time, and before the time is judged: who has no key learns nothing.
    """
    time, said = headers.get(TIME_HEADER, ""), headers.get(SIGNATURE_HEADER, "")
    if not (time and said):
        return f"{TIME_HEADER} or {SIGNATURE_HEADER} is missing"
    if not (time.isascii() and time.isdigit() and len(time) <= _TIME_DIGITS):
        return f"{TIME_HEADER} is not a number of milliseconds"
    # as bytes: compare_digest refuses text that is not ASCII
    if not hmac.compare_digest(signature(key, int(time), body).encode(), said.encode(errors="replace")):
        return f"{SIGNATURE_HEADER} does not fit"
    if abs(now_ms - int(time)) > window_ms:
        return f"{TIME_HEADER} is more than {window_ms} ms away from this clock"
    return None
