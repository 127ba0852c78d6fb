"""Signed check requests and answers: who knows the producer group's key can ask, and answer, and nobody else.

The signature is HMAC-SHA256, in hex, over the time (ms since 1970, decimal), a full stop, and the body as sent. The
check service signs with :func:`signed_headers`; an endpoint calls :func:`fitting_key` before it looks into the body,
and signs its answer with the key that it gave: :func:`answer_signature`. That names the request, so that the answer to
one is none to another.
"""

import hashlib
import hmac
from collections.abc import Mapping, Sequence

from checkback.exceptions import ProtocolError

TIME_HEADER = "checkback-time"
SIGNATURE_HEADER = "checkback-signature"
WINDOW_MS = 900_000
"""More than ``job.clock_tolerance``, 10 min: a check whose sender's clock is off by that is still answered."""
_TIME_DIGITS = 15
_CHARACTERS = 64


def signature(key: bytes, time_ms: int, body: bytes) -> str:
    """The signature of a body at a time."""
    return hmac.digest(key, b"%d.%b" % (time_ms, body), hashlib.sha256).hex()


def signed_headers(key: bytes, time_ms: int, body: bytes) -> dict[str, str]:
    """The two headers of a signed request."""
    return {TIME_HEADER: str(time_ms), SIGNATURE_HEADER: signature(key, time_ms, body)}


class NotTrustedError(ProtocolError):
    """A request that is not signed with one of the keys, or not now."""


def fitting_key(
    keys: Sequence[bytes], headers: Mapping[str, str], body: bytes, now_ms: int, window_ms: int = WINDOW_MS
) -> bytes:
    """The key that a request is signed with. ``headers`` must know names in lower case.

    One of the keys must fit: an old one and a new one, while they are changed. The signature is compared in constant
    time with that of each, and before the time is judged: who has no key learns nothing.

    Raises:
        NotTrustedError: none of them fits, or it was signed at another time; the message says which.
    """
    time, signed = shown_signature(headers)
    fits = [key for key in keys if _same(signature(key, int(time), body), signed)]
    if not fits:
        raise NotTrustedError(f"{SIGNATURE_HEADER} does not fit.")
    if abs(now_ms - int(time)) > window_ms:
        raise NotTrustedError(f"{TIME_HEADER} is more than {window_ms} ms away from this clock.")
    return fits[0]


def shown_signature(headers: Mapping[str, str]) -> tuple[str, str]:
    """Time and signature as two headers show them, before anything of the body is read.

    Raises:
        NotTrustedError: one of them is missing, or cannot be right.
    """
    time, signed = headers.get(TIME_HEADER, ""), headers.get(SIGNATURE_HEADER, "")
    if not (time and signed):
        raise NotTrustedError(f"{TIME_HEADER} or {SIGNATURE_HEADER} is missing.")
    if not (time.isascii() and time.isdigit() and len(time) <= _TIME_DIGITS):
        raise NotTrustedError(f"{TIME_HEADER} is not a number of milliseconds.")
    if len(signed) != _CHARACTERS:
        raise NotTrustedError(f"{SIGNATURE_HEADER} does not fit.")
    return time, signed


def answer_signature(key: bytes, request: str, body: bytes) -> str:
    """The signature of the answer to a request; ``request`` is that one's signature."""
    return hmac.digest(key, b"answer.%b.%b" % (request.encode(errors="replace"), body), hashlib.sha256).hex()


def answer_fits(key: bytes, request: str, body: bytes, signed: str) -> bool:
    """Whether who knows the key has given this answer to that request."""
    return _same(answer_signature(key, request, body), signed)


def _same(expected: str, signed: str) -> bool:
    # as bytes: compare_digest refuses text that is not ASCII
    return hmac.compare_digest(expected.encode(), signed.encode(errors="replace"))
