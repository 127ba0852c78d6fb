"""Signatures of records: what they are, and that nothing of a record can be changed under one."""

import hashlib
import hmac
from base64 import b64decode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkback.exceptions import ConfigurationError
from checkback.wire.protocol import SIGNATURE, Headers
from checkback.wire.signed_records import (
    SigningKey,
    WrittenSignature,
    content_hash,
    parted,
    place_of,
    signature_header,
    spelled,
)

KEY = SigningKey("shop-1", "s" * 32)
CONTENTS = st.none() | st.binary(max_size=40)
HEADERS = st.lists(st.tuples(st.sampled_from(["cb-id", "cb-group", "cb-reason", "trace", "x"]), st.binary(max_size=9)))


@given(st.binary(min_size=32, max_size=200), st.lists(st.binary(max_size=100)))
def test_the_code_is_hmac_sha256(secret: bytes, parts: list[bytes]) -> None:
    assert b64decode(SigningKey("a", secret).code(b"".join(parts))) == hmac.digest(
        secret, b"".join(parts), hashlib.sha256
    )


def test_what_is_signed_byte_by_byte() -> None:
    """As docs/access-policy.md has it, for clients in other languages."""
    headers: Headers = [("cb-id", b"tx"), ("trace", b"1"), ("cb-reason", b"late"), ("cb-group", b"shop")]
    _, said = signature_header(KEY, place_of("cb.half", 3), 1_764_000_000_000, (None, b"value"), headers)
    key_id, time, content, code = said.split(b" ")
    assert (key_id, time) == (b"shop-1", b"1764000000000")
    hashed = hashlib.sha256(b"-,5:value,5:trace,1:1,9:cb-reason,4:late,").digest()
    assert b64decode(content) == hashed
    message = b"7:cb.half,1:3,6:shop-1,13:1764000000000,44:%b,5:cb-id,2:tx,8:cb-group,4:shop," % content
    assert b64decode(code) == hmac.digest(b"s" * 32, message, hashlib.sha256)


@given(HEADERS, CONTENTS, CONTENTS, st.integers(0, 5), st.data())
def test_any_change_is_seen(
    headers: list[tuple[str, bytes]], key: bytes | None, value: bytes | None, partition: int, data: st.DataObject
) -> None:
    place = place_of("cb.half", partition)
    header = signature_header(KEY, place, 1_000, (key, value), headers)
    said = WrittenSignature.parse(header[1])
    assert said is not None

    def holds(
        signing: SigningKey, place: bytes, headers: list[tuple[str, bytes]], content: tuple[bytes | None, bytes | None]
    ) -> bool:
        ours, others = parted([*headers, header])
        return said.fits(signing, place, spelled(ours)) and said.content == content_hash(content[0], content[1], others)

    assert holds(KEY, place, headers, (key, value))
    other_key, other_value = data.draw(CONTENTS), data.draw(CONTENTS)
    assert holds(KEY, place, headers, (other_key, other_value)) == ((other_key, other_value) == (key, value))
    others = data.draw(HEADERS)
    assert holds(KEY, place, others, (key, value)) == (parted(others) == parted(headers))
    assert not holds(KEY, place_of("cb.half", partition + 1), headers, (key, value))
    assert not holds(KEY, place_of("cb.op", partition), headers, (key, value))
    assert not holds(SigningKey("shop-1", "t" * 32), place, headers, (key, value))


@given(st.binary(max_size=150))
def test_what_is_no_signature(written: bytes) -> None:
    assert WrittenSignature.parse(written) is None
    assert WrittenSignature.parse(None) is None


@pytest.mark.parametrize(
    ("key_id", "secret", "said"),
    [("a b", "s" * 32, "key's id has"), ("", "s" * 32, "key's id has"), ("a", "s" * 31, "32 to 1024 bytes")],
)
def test_what_cannot_be_a_key(key_id: str, secret: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said) as raised:
        SigningKey(key_id, secret)
    assert "sss" not in str(raised.value)


def test_nobody_sees_the_secret() -> None:
    assert "sss" not in repr(KEY) + str(KEY) + KEY.fingerprint + repr(vars(KEY))


def test_a_signature_covers_no_other_signature() -> None:
    """So that the header may stand anywhere, and is not part of what it signs."""
    assert parted([(SIGNATURE, b"x"), ("cb-id", b"1")]) == ([("cb-id", b"1")], [])
