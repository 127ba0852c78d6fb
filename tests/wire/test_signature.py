"""Signed check requests."""

import hashlib
import hmac
from pathlib import Path

import pytest

from checkback.wire.signature import (
    NotTrustedError,
    answer_fits,
    answer_signature,
    fitting_key,
    signature,
    signed_headers,
)

KEY, BODY, NOW_MS = b"a secret of the group", b'{"id": "tx-17"}', 1_767_225_600_000


def refusal(key: bytes, headers: dict[str, str], body: bytes, now_ms: int) -> str | None:
    """Why not."""
    try:
        assert fitting_key([b"another key", key], headers, body, now_ms) == key
    except NotTrustedError as error:
        return str(error).removesuffix(".")
    return None


def changed(**headers: str) -> dict[str, str]:
    given = signed_headers(KEY, NOW_MS, BODY)
    return {**given, **{name.replace("_", "-"): value for name, value in headers.items()}}


def test_it_is_the_hmac_over_time_and_body() -> None:
    expected = hmac.new(KEY, b"1767225600000." + BODY, hashlib.sha256).hexdigest()
    assert signed_headers(KEY, NOW_MS, BODY) == {"checkback-time": "1767225600000", "checkback-signature": expected}


@pytest.mark.parametrize("away_ms", [-900_000, -1, 0, 1, 900_000])
def test_it_holds_within_the_window(away_ms: int) -> None:
    assert refusal(KEY, changed(), BODY, NOW_MS + away_ms) is None


@pytest.mark.parametrize("away_ms", [-900_001, 900_001, 10**12])
def test_it_does_not_hold_outside(away_ms: int) -> None:
    reason = refusal(KEY, changed(), BODY, NOW_MS + away_ms)
    assert reason == "checkback-time is more than 900000 ms away from this clock"


def test_another_body_key_or_time_does_not_fit() -> None:
    said = "checkback-signature does not fit"
    assert refusal(KEY, changed(), BODY + b" ", NOW_MS) == said
    assert refusal(b"another", changed(), BODY, NOW_MS) == said
    assert refusal(KEY, changed(checkback_time=str(NOW_MS + 1)), BODY, NOW_MS) == said


@pytest.mark.parametrize("text", ["00", "ü", "\ud800", "x" * 100_000, signature(KEY, NOW_MS, BODY)[:-1]])
def test_a_signature_that_is_none_does_not_fit(text: str) -> None:
    assert refusal(KEY, changed(checkback_signature=text), BODY, NOW_MS) == "checkback-signature does not fit"


@pytest.mark.parametrize("text", ["soon", "-1", "1.5", "٣", "1" * 16, "1_0", " 1"])
def test_a_time_that_is_none_is_refused(text: str) -> None:
    assert refusal(KEY, changed(checkback_time=text), BODY, NOW_MS) == "checkback-time is not a number of milliseconds"


@pytest.mark.parametrize("missing", ["checkback_time", "checkback_signature"])
def test_without_a_header_it_is_refused(missing: str) -> None:
    said = "checkback-time or checkback-signature is missing"
    assert refusal(KEY, changed(**{missing: ""}), BODY, NOW_MS) == refusal(KEY, {}, BODY, NOW_MS) == said


def test_the_example_of_the_docs_holds() -> None:
    page = (Path(__file__).parents[2] / "docs" / "protocol.md").read_text(encoding="utf-8")
    said = signature(b"key of the orders", 1_767_225_600_000, b'{"version":1}')
    assert f"checkback-signature: {said}" in page


def test_an_answer_is_to_one_request_and_under_one_key() -> None:
    request, another = signature(KEY, NOW_MS, BODY), signature(KEY, NOW_MS + 1, BODY)
    said = answer_signature(KEY, request, b"{}")
    assert answer_fits(KEY, request, b"{}", said)
    assert not answer_fits(KEY, another, b"{}", said)
    assert not answer_fits(KEY, request, b"{ }", said)
    assert not answer_fits(b"another", request, b"{}", said)
    assert not answer_fits(KEY, request, b"{}", "")
    assert not answer_fits(KEY, request, b"{}", "\u00fc\ud800")


def test_what_is_sent_as_a_request_signs_no_answer() -> None:
    """Who can have the check service sign a body cannot have it sign an answer: the time is digits there."""
    request = signature(KEY, NOW_MS, BODY)
    assert answer_signature(KEY, request, BODY) != signature(KEY, NOW_MS, b"%b.%b" % (request.encode(), BODY))


def test_the_example_of_an_answer_in_the_docs_holds() -> None:
    page = (Path(__file__).parents[2] / "docs" / "protocol.md").read_text(encoding="utf-8")
    request = signature(b"key of the orders", 1_767_225_600_000, b'{"version":1}')
    said = answer_signature(b"key of the orders", request, b'{"state":"commit"}')
    assert f"checkback-signature: {said}" in page
